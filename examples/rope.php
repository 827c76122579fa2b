<?php
// A model's rotary table from posref: fetch it, check it, read a part of it, find a mistake.
// Run, beside config.json: php rope.php http://127.0.0.1:8000
$server = $argv[1] ?? 'http://127.0.0.1:8000';

/** Returns the body and the head of an answer, which must have this status. */
function ask(int $status, string $path, array $fields = [], ?string $body = null): array
{
    $method = $body === null ? 'GET' : 'POST';
    $request = ['method' => $method, 'header' => $fields, 'content' => $body];
    $context = stream_context_create(['http' => $request + ['ignore_errors' => true]]);
    $stream = fopen($GLOBALS['server'] . $path, 'r', false, $context) or exit(1);
    $content = stream_get_contents($stream);
    $head = implode("\n", stream_get_meta_data($stream)['wrapper_data']);
    explode(' ', $head)[1] == $status or fail("$path: $head\n\n$content");
    return [$content, $head];
}

function check(string $name, float $value, float $expected): void
{
    printf("%s: %.6f\n", $name, $value);
    abs($value - $expected) < 1e-6 or fail("expected $expected");
}

function fail(string $reason): never
{
    fwrite(STDERR, "$reason\n");
    exit(1);
}

// From the config to the cosines in the layout of the model: a row of 64 for each position.
$config = file_get_contents('config.json');
$model = json_decode(ask(200, '/rope/config', ['Content-Type: application/json'], $config)[0]);
echo "layout: $model->layout\n";
$link = $model->rope->default->cos;
[$table, $head] = ask(200, $link);
// A header of npy has 128 bytes. The config divides the lowest frequency by its factor, 32.
$value = unpack('g', $table, 128 + 4 * (131071 * 64 + 31))[1];
$lowest = 500000 ** (-62 / 64) / 32;
check('cos[131071][31]', $value, cos(131071 * $lowest));
preg_match('/^etag: (.*)$/im', $head, $etag);
ask(304, $link, ["If-None-Match: $etag[1]"]);
echo "unchanged: 304\n";

// One row of a table of 512 GiB, and a misspelled parameter.
$first = 128 + 4 * 1_000_000_000 * 64;
[$row] = ask(206, "$link&seq_len=2147483648", ["Range: bytes=$first-" . $first + 255]);
check('cos[1000000000][0]', unpack('g', $row)[1], cos(1e9));
echo 'problem: ', json_decode(ask(422, '/rope?head_dim=64&seqlen=8')[0])->detail, "\n";

// The first 64 rows of an engine that interleaves the channels of a model with halves.
$mine = '';
for ($i = 0; $i < 64 * 64; $i++) {
    $mine .= substr($table, 128 + 4 * ($i - $i % 64 + intdiv($i % 64, 2)), 4);
}
$to = '/diagnose?shape=64,64&dtype=float32&to=' . urlencode($link);
$types = ['Content-Type: application/octet-stream', 'Accept: text/plain'];
echo 'diagnosis: ', strtok(ask(200, $to, $types, $mine)[0], "\n"), "\n";
