// Uses the types of openapi-typescript with fetch, and prints as one JSON object what came.
import type { components, operations } from './schema.js';

type Document = components['schemas']['Document'];
type Query = NonNullable<operations['getRope']['parameters']['query']>;

declare const process: { argv: string[] };
const asked: Query = { head_dim: 4, seq_len: 2, pack: 'half' };
const query = Object.entries(asked).map(([name, value]) => `${name}=${value}`).join('&');
const answer = await fetch(`${process.argv[2]}/rope?${query}`);
const document = (await answer.json()) as Document;
if (document.type !== 'tables') throw new Error(`several arrays expected: ${document.type}`);
const { layout, shapes, data } = document;
console.log(JSON.stringify({ layout, shapes, data }));
