// Uses the generated client, and prints what it made of each answer as one JSON object.
import {
    Configuration, EncodingApi, Extension, Pack, ProblemFromJSON, ResponseError, RopeApi, RopeApplyLayout,
} from '../client/index.js';
import type { Document, Problem, Table, Tables } from '../client/index.js';

declare const process: { argv: string[] };
const [, , basePath, config] = process.argv;
const configuration = new Configuration({ basePath });
const encoding = new EncodingApi(configuration);
const rope = new RopeApi(configuration);

function one(document: Document): Table {
    if (document.type !== 'table') throw new Error(`one array expected: ${document.type}`);
    return document;
}

function several(document: Document): Tables {
    if (document.type !== 'tables') throw new Error(`several arrays expected: ${document.type}`);
    return document;
}

async function refusal(answer: Promise<unknown>): Promise<Problem> {
    const error = await answer.then(() => null, (reason: unknown) => reason);
    if (!(error instanceof ResponseError)) throw new Error('an odd width is not refused');
    return ProblemFromJSON(await error.response.json());
}

const table = one(await encoding.getEncoding({ seqLen: 2, dModel: 4 }));
const tables = several(await rope.getRope({ headDim: 4, seqLen: 2, pack: Pack.Half }));
const file = await rope.getRopeAs({ extension: Extension.Npy, headDim: 4, seqLen: 2 });
const bytes = new Uint8Array(await file.arrayBuffer());
const problem = await refusal(rope.getRope({ headDim: 5, seqLen: 2 }));
const x = [[1, 2, 3, 4], [5, 6, 7, 8]];
const rotated = one(
    await rope.postRopeApply({ layout: RopeApplyLayout.Half, ropeApplyRequest: { x } }),
);
const report = await rope.postRopeConfig({ requestBody: JSON.parse(config) });
const settings = report.rope['default'];

console.log(JSON.stringify({
    table: { shape: table.shape, dtype: table.dtype, data: table.data },
    tables: { layout: tables.layout, shapes: tables.shapes, data: tables.data },
    file: btoa(String.fromCharCode(...bytes)),
    problem: { status: problem.status, parameter: problem.errors[0].parameter },
    rotated: rotated.data,
    config: { rope_theta: settings.ropeTheta, links: [settings.table, settings.file] },
}));
