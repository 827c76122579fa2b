"""Conventions of one axis: positions that count tokens, by mask, padding id, sequence or cell."""

from abc import abstractmethod
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from service.encodings.family import InputArray, Integers, about, impossible
from service.encodings.positions.convention import Convention, Masked, NamedTables
from service.encodings.positions.pieces import (
    Piece,
    PiecesTable,
    Progress,
    Row,
    constant,
    joined,
    one_run,
)
from service.encodings.positions.segments import Prompt, TokenConvention, plain_segment
from service.encodings.positions.sent_arrays import (
    CELL_TYPES,
    CU_SEQLENS,
    INPUT_IDS,
    check_each,
    integers_of,
)
from service.errors import InvalidBody
from service.grammar import Integer
from service.numerics.dtypes import INT32, INT64, Elements
from service.numerics.limits import MAX_LENGTH
from service.numerics.phase import MAX_POSITION, Int64s
from service.numerics.tables import FormulaTable, StoredTable, Table

_MAX_ID = 2**31 - 1
_MAX_SEQUENCES = 2**14

Past = Annotated[Integer, about("Tokens before those that are sent.", 4, ge=0, le=MAX_LENGTH // 4)]
Offset = Annotated[Integer, about("What is added to each position.", 2, ge=0, le=_MAX_ID)]


class OneAxis(TokenConvention):
    """Base of the conventions that count the tokens of a row."""

    arrays: ClassVar[tuple[str, ...]] = ("position_ids", "attention_mask", "decode_position_ids")

    def answer(self, arrays: Mapping[str, StoredTable]) -> NamedTables:
        prompts = self.prompts(arrays)
        tables: dict[str, Table]
        if arrays:
            tables, following = self._counted(self.kinds_of(arrays) == 0)
        else:
            rows = [self.numbered(prompt) for prompt in prompts]
            tables = {
                "position_ids": PiecesTable(rows, skipped=self.past_length),
                "attention_mask": PiecesTable([row.mask() for row in rows]),
            }
            following = np.array([row.following for row in rows])
        if int(following.max()) + (self.steps or 0) > MAX_POSITION:
            raise InvalidBody("positions lie beyond 2^62", "/rows")

        def decoded(rows: range, columns: range) -> Int64s:
            # A batch of arrays may have millions of rows.
            steps = np.arange(columns.start, columns.stop)
            return following[rows.start : rows.stop, np.newaxis] + steps

        if self.steps is not None:
            shape = (len(following), self.steps)
            tables["decode_position_ids"] = FormulaTable(shape, INT64, self.steps, decoded)
        return NamedTables(tables, {})

    def found(self, arrays: Mapping[str, StoredTable]) -> list[Prompt]:
        batch, length = next(iter(arrays.values())).shape
        return [Prompt([plain_segment(0, length)], "/input_ids")] * batch

    def _counted(self, is_token: NDArray[np.bool_]) -> tuple[dict[str, Table], Int64s]:
        """Return the arrays of tokens (batch, length), and the position after each row."""
        first, masked = self.origins()
        counts = np.ones_like(is_token) if masked is None else is_token
        ends = np.cumsum(counts, axis=1, dtype=np.int64) + first
        ids = np.where(counts, ends - 1, 0 if masked is None else masked)[:, self.past_length :]
        tables: dict[str, Table] = {
            "position_ids": StoredTable(ids, INT64),
            "attention_mask": StoredTable(is_token.astype(np.int64), INT64),
        }
        return tables, ends[:, -1]

    def numbered(self, prompt: Prompt) -> Row:
        """Return the positions of a row."""
        pieces, (first, masked) = [], self.origins()
        for segment in prompt.padded():
            count, is_masked = self.count(segment), segment.kind == "pad"
            is_apart = is_masked and masked is not None
            axis = constant(masked) if is_apart else Progress(first)
            pieces.append(Piece(count, (axis,), is_masked=is_masked))
            first += count * (not is_apart)
        return Row(joined(pieces), following=first)

    @abstractmethod
    def origins(self) -> tuple[int, int | None]:
        """Return the position of the first token, and that of masked ones.

        The latter is None if masked tokens count as others do. Raises InvalidParameters.
        """


class MaskPositions(OneAxis, name="mask"):
    """The number of unmasked tokens before each token.

    Formula: cumsum(attention_mask) − 1; masked tokens have ``masked``. A decoded token has the
        number of unmasked tokens before it.
    Source: transformers 5.23.0 ``_prepare_position_ids_for_generation`` (masked 0), 4.57.6
        ``prepare_inputs_for_generation`` (masked 1).
    Trap: ``forward`` without positions counts padding as ``arange`` does: with padding on the left
        ``generate`` and ``forward`` differ.
    """

    example: ClassVar[Mapping[str, Any]] = {"attention_mask": [[0, 0, 1, 1], [1, 1, 1, 1]]}

    masked: Masked = 0

    def origins(self) -> tuple[int, int | None]:
        return 0, self.masked


class Arange(OneAxis, name="arange"):
    """The columns of a batch, counted whatever the mask.

    Formula: past + offset + column.
    Source: transformers 5.23.0 ``LlamaModel.forward`` without positions; with offset=2
        ``BartLearnedPositionalEmbedding`` and ``MBartLearnedPositionalEmbedding``.
    Trap: tokens behind padding on the left have other positions than in a row of their own.
    """

    example: ClassVar[Mapping[str, Any]] = {"rows": [[{"text": 4}]], "past": 3}

    past: Past = 0
    offset: Offset = 0

    def origins(self) -> tuple[int, int | None]:
        return self.past + self.offset, None


class PaddingIds(OneAxis, name="padding_idx"):
    """The positions of RoBERTa and of fairseq: tokens count from padding_idx + 1.

    Formula: the k-th token that is no padding, k from 1, has padding_idx + past + k; padding has
        padding_idx.
    Source: transformers 5.23.0 ``create_position_ids_from_input_ids``; fairseq 0.12.2
        ``make_positions``.
    Trap: the first token has position padding_idx + 1, not 0, and the table of positions has
        padding_idx + 1 rows more than a text has tokens. Padding is what has the id padding_idx:
        the attention mask has no part in it.
    """

    models: ClassVar[tuple[str, ...]] = (
        "roberta",
        "xlm-roberta",
        "xlm-roberta-xl",
        "camembert",
        "data2vec-text",
        "longformer",
        "luke",
        "mpnet",
        "m2m_100",
        "nllb-moe",
    )
    inputs: ClassVar[tuple[InputArray, ...]] = (INPUT_IDS,)
    example: ClassVar[Mapping[str, Any]] = {"padding_idx": 1, "input_ids": [[0, 5, 6, 2, 1, 1]]}

    padding_idx: Annotated[
        Integer, about("The id of padding, and its position.", 1, ge=0, le=_MAX_ID)
    ]
    past: Past = 0

    def origins(self) -> tuple[int, int | None]:
        return self.padding_idx + self.past + 1, self.padding_idx

    def kinds_of(self, arrays: Mapping[str, StoredTable]) -> Elements:
        is_padding = integers_of(arrays[INPUT_IDS.name]) == self.padding_idx
        return np.where(is_padding, -1, 0)


class Opt(OneAxis, name="opt"):
    """The rows of OPT's table of positions.

    Formula: cumsum(attention_mask)·attention_mask − 1 + offset: unmasked tokens count from offset,
        masked ones have offset − 1.
    Source: transformers 5.23.0 ``OPTLearnedPositionalEmbedding``, whose offset is 2.
    Trap: the first row of the table is never used, and the second one is that of masked tokens.
    """

    models: ClassVar[tuple[str, ...]] = ("opt", "biogpt")
    example: ClassVar[Mapping[str, Any]] = {"attention_mask": [[0, 1, 1, 1]]}

    offset: Offset = 2

    def origins(self) -> tuple[int, int | None]:
        if not self.offset:
            rule = "offset must be at least 1: masked tokens have offset − 1"
            raise impossible("offset", 0, rule)
        return self.offset, self.offset - 1


class Packed(Convention, name="packed"):
    """The positions of sequences that are packed into one row.

    Formula: start, start + 1, … in each sequence, (1, tokens); cu_seqlens are the sums of lengths
        before each sequence and of all, seq_idx is the number of a token's sequence.
    Source: transformers 5.23.0 ``DataCollatorWithFlattening``; flash-attn 2 ``varlen``.
    Trap: transformers finds sequences again where positions do not grow by one. So it takes the
        positions 0, 0, 0, 1, 2 of padding on the left for three sequences, and the temporal axis
        of M-RoPE for one sequence a visual token.
    """

    arrays: ClassVar[tuple[str, ...]] = ("position_ids", "cu_seqlens", "seq_idx")
    unlisted: ClassVar[frozenset[str]] = frozenset({"lengths"})
    inputs: ClassVar[tuple[InputArray, ...]] = (CU_SEQLENS,)
    example: ClassVar[Mapping[str, Any]] = {"lengths": [3, 1, 4]}

    lengths: Annotated[Integers, about("Tokens of each packed sequence.", "3,1,4")] | None = None
    start: Annotated[
        Integer, about("The first position of each sequence.", 0, ge=0, le=_MAX_ID)
    ] = 0

    def answer(self, arrays: Mapping[str, StoredTable]) -> NamedTables:
        ends = self._ends(arrays)
        counts = np.diff(ends).tolist()
        runs = [one_run(count, self.start) for count in counts]
        numbers = [Piece(count, (constant(number),)) for number, count in enumerate(counts)]
        tables: dict[str, Table] = {
            "position_ids": PiecesTable([Row(joined(runs))]),
            "cu_seqlens": StoredTable(np.array(ends, dtype=np.int32), INT32),
            "seq_idx": PiecesTable([Row(joined(numbers))], dtype=INT32),
        }
        return NamedTables(tables, {"max_seqlen": max(counts)})

    def _ends(self, arrays: Mapping[str, StoredTable]) -> list[int]:
        """Return where sequences begin and the last one ends; raises if they are impossible."""
        name = CU_SEQLENS.name
        if name in arrays and self.lengths is not None:
            raise impossible("lengths", self.lengths, "lengths does not go with cu_seqlens")
        if name in arrays:
            ends: list[int] = integers_of(arrays[name]).tolist()
            if ends[0] or any(after < before for before, after in pairwise(ends)):
                raise InvalidBody("cu_seqlens must begin with 0 and never fall", f"/{name}")
        elif self.lengths is not None:
            ends = [0, *accumulate(self.lengths)]
            if min(self.lengths) < 0:
                raise impossible("lengths", self.lengths, "lengths must not be negative")
        else:
            raise InvalidBody("send lengths, or cu_seqlens", "/lengths")
        if not 0 < ends[-1] <= _MAX_ID or len(ends) > _MAX_SEQUENCES:
            sent = name if name in arrays else "lengths"
            rule = (
                f"{sent} must be of 1 to 2^31 − 1 tokens in fewer than {_MAX_SEQUENCES} sequences"
            )
            raise InvalidBody(rule, f"/{sent}")
        return ends


_COLUMN, _ROW, _TYPES = 1, 2, 7


class Cells(Convention, name="cell"):
    """The positions of TAPAS, which begin again in each cell of a table.

    Formula: min(max_position_embeddings − 1, i − the first place with the same column and row as
        token i).
    Source: transformers 5.23.0 ``TapasEmbeddings`` with ``reset_position_index_per_cell``.
    Trap: tokens of one cell that are apart from each other still count from its first token;
        masked tokens count as others do, so that there is no mask among the answers.
    """

    models: ClassVar[tuple[str, ...]] = ("tapas",)
    inputs: ClassVar[tuple[InputArray, ...]] = (CELL_TYPES,)
    example: ClassVar[Mapping[str, Any]] = {
        "max_position_embeddings": 512,
        "token_type_ids": [[[0, column, 1, 0, 0, 0, 0] for column in (0, 1, 1, 2)]],
    }

    max_position_embeddings: Annotated[
        Integer, about("Rows of the table of positions.", 512, ge=1, le=MAX_LENGTH)
    ]

    def answer(self, arrays: Mapping[str, StoredTable]) -> NamedTables:
        name = CELL_TYPES.name
        if name not in arrays:
            raise InvalidBody(f"send {name}: {CELL_TYPES.description}", f"/{name}")
        types = integers_of(arrays[name])
        batch, length, width = types.shape
        if width != _TYPES or not types.size:
            raise InvalidBody(f"{name} must be {CELL_TYPES.description}", f"/{name}")
        check_each((types >= 0) & (types <= _MAX_ID), types, name, "must be 0 to 2^31 − 1")
        place, keys = np.arange(batch * length), types.reshape(-1, _TYPES)
        cell = np.unique(keys[:, _COLUMN] << 31 | keys[:, _ROW], return_inverse=True)[1]
        cells = cell.reshape(-1) * batch + place // length
        _, first, cell = np.unique(cells, return_index=True, return_inverse=True)
        ids = np.minimum(place - first[cell], self.max_position_embeddings - 1)
        return NamedTables({"position_ids": StoredTable(ids.reshape(batch, length), INT64)}, {})
