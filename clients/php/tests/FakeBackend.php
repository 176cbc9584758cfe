<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests;

/** A backend in a process of its own, that answers each request with the next of these statuses. */
final class FakeBackend
{
    public readonly string $url;
    private readonly int $pid;
    private readonly string $file;

    /** @param list<int|string> $statuses 0 closes the connection without an answer; a whole answer */
    public function __construct(array $statuses)
    {
        $server = stream_socket_server('tcp://127.0.0.1:0');
        $this->url = 'http://' . stream_socket_get_name($server, false);
        $this->file = tempnam(sys_get_temp_dir(), 'ojs-php-');
        $this->pid = pcntl_fork();
        if ($this->pid === 0) {
            foreach ($statuses as $status) {
                $this->serve(stream_socket_accept($server, 60.0), $status);
            }
            fclose($server);
            posix_kill(getmypid(), SIGKILL);
        }
        fclose($server);
    }

    private function serve(mixed $stream, int|string $status): void
    {
        $head = '';
        while (!str_ends_with($head, "\r\n\r\n")) {
            $head .= fgets($stream);
        }
        preg_match('/^content-length: (\d+)/mi', $head, $match);
        $body = stream_get_contents($stream, (int) $match[1]);
        file_put_contents($this->file, json_encode(['head' => $head, 'body' => json_decode($body, true)]) . "\n", FILE_APPEND);
        if (is_string($status)) {
            fwrite($stream, $status);
        } elseif ($status !== 0) {
            $answer = $status < 300 ? '{"job":{"id":"from-the-backend"}}' : '{"error":{"message":"no such thing"}}';
            fwrite($stream, "HTTP/1.1 $status Whatever\r\nConnection: close\r\nContent-Length: " . strlen($answer) . "\r\n\r\n$answer");
        }
        fclose($stream);
    }

    /** @return list<array{head: string, body: array<string, mixed>}> */
    public function requests(): array
    {
        return array_map(static fn (string $line): array => json_decode($line, true), file($this->file));
    }

    public function close(): void
    {
        posix_kill($this->pid, SIGKILL);
        pcntl_waitpid($this->pid, $status);
        unlink($this->file);
    }
}
