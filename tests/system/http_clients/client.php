<?php
// php client.php curl|streams URL: send the requests of standard input with curl, or by file_get_contents.

function with_curl(string $url, string $method, array $headers, string $body): array
{
    static $curl = null;
    $curl ??= curl_init();
    curl_reset($curl);
    // On an http URL, 2.0 offers h2c.
    curl_setopt_array($curl, [
        CURLOPT_URL => $url,
        CURLOPT_HTTP_VERSION => CURL_HTTP_VERSION_2_0,
        CURLOPT_CUSTOMREQUEST => $method,
        CURLOPT_HTTPHEADER => $headers,
        CURLOPT_RETURNTRANSFER => true,
    ]);
    if ($body !== '') {
        curl_setopt($curl, CURLOPT_POSTFIELDS, $body);
    }
    $answer = curl_exec($curl);
    return [curl_getinfo($curl, CURLINFO_RESPONSE_CODE), $answer];
}

function with_streams(string $url, string $method, array $headers, string $body): array
{
    $options = ['method' => $method, 'header' => $headers, 'content' => $body, 'ignore_errors' => true];
    $answer = file_get_contents($url, false, stream_context_create(['http' => $options]));
    return [(int) explode(' ', $http_response_header[0])[1], $answer];
}

foreach (file('php://stdin', FILE_IGNORE_NEW_LINES) as $line) {
    [$method, $target, $fields, $body] = explode("\t", $line);
    $headers = array_filter(explode('|', $fields));
    [$status, $answer] = "with_$argv[1]"($argv[2] . $target, $method, $headers, $body);
    echo json_encode(['status' => $status, 'body' => bin2hex($answer)]), "\n";
}
