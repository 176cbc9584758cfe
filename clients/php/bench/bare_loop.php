<?php

/**
 * The plain HTTP worker that the library is measured against: CONCURRENCY processes, each with a connection that is kept,
 * fetch and acknowledge one job after the other until JOBS are done. Environment: OJS_URL, CONCURRENCY (10), JOBS (1000).
 */

declare(strict_types=1);

function post($stream, string $host, string $path, array $body): array
{
    $text = json_encode($body);
    fwrite($stream, "POST $path HTTP/1.1\r\nHost: $host\r\nContent-Type: application/openjobspec+json\r\n"
        . 'Content-Length: ' . strlen($text) . "\r\n\r\n" . $text);
    $head = '';
    do {
        $line = fgets($stream);
        if ($line === false) {
            throw new RuntimeException('the connection is closed');
        }
        $head .= $line;
    } while ($line !== "\r\n");
    $size = preg_match('/^content-length: *(\d+)/mi', $head, $match) ? (int) $match[1] : 0;
    $answer = '';
    while (strlen($answer) < $size) {
        $answer .= fread($stream, $size - strlen($answer));
    }
    return (array) json_decode($answer, true);
}

function loop(string $url, int $number, int $jobs): void
{
    $host = parse_url($url, PHP_URL_HOST) . ':' . (parse_url($url, PHP_URL_PORT) ?? 80);
    $stream = stream_socket_client("tcp://$host", context: stream_context_create(['socket' => ['tcp_nodelay' => true]]));
    for ($done = 0; $done < $jobs;) {
        $fetch = ['queues' => ['default'], 'count' => 1, 'worker_id' => "bare-$number"];
        $answer = post($stream, $host, '/ojs/v1/workers/fetch', $fetch);
        foreach ($answer['jobs'] ?? [] as $job) {
            post($stream, $host, '/ojs/v1/workers/ack', ['job_id' => $job['id'], 'result' => null]);
            $done++;
        }
        if (($answer['jobs'] ?? []) === []) {
            usleep(5000);
        }
    }
}

$url = getenv('OJS_URL') ?: 'http://127.0.0.1:8080';
$concurrency = (int) (getenv('CONCURRENCY') ?: 10);
$jobs = (int) (getenv('JOBS') ?: 1000);
for ($number = 0; $number < $concurrency; $number++) {
    if (pcntl_fork() === 0) {
        loop($url, $number, intdiv($jobs, $concurrency) + ($number < $jobs % $concurrency ? 1 : 0));
        exit(0);
    }
}
$status = 0;
while (pcntl_wait($one) > 0) {
    $status = max($status, pcntl_wexitstatus($one));
}
exit($status);
