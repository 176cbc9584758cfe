<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests;

/** Plays ojs-init for a worker that is a real PHP program. Every wait ends as soon as what it waits for has come. */
final class FakeInit
{
    private const PATIENCE = 15.0;
    /** Linux; PHP has no name for it. */
    private const SO_PEERCRED = 17;

    private readonly string $folder;
    /** @var ?resource */
    private $server;
    /** @var resource */
    private $process;
    private ?int $status = null;
    /** @var array<int, array{stream: resource, pid: int, in: string, free: int}> the first is that of the first process */
    private array $links = [];
    private int $came = 0;
    /** @var array<string, int> the link that holds each job */
    private array $held = [];
    /** @var list<array<string, mixed>> */
    private array $frames = [];

    /** @param string $code registers handlers at $worker; `note($name)` tells the test that a line was reached */
    public function __construct(string $code, private readonly int $concurrency = 1)
    {
        $this->folder = sys_get_temp_dir() . '/ojs-php-' . bin2hex(random_bytes(6));
        mkdir($this->folder, 0700);
        $this->server = stream_socket_server("unix://{$this->folder}/s");
        stream_set_blocking($this->server, false);
        $head = '<?php declare(strict_types=1); use Ojs\Worker\{Worker, Job, Retry, Discard, Release, Cancelled}; require '
            . var_export(dirname(__DIR__) . '/autoload.php', true) . ";\n"
            . 'function note(string $name): void { file_put_contents(getenv("FOLDER") . "/$name", (string) getmypid()); }'
            . "\n\$worker = new Worker();\n";
        file_put_contents("{$this->folder}/w.php", "$head$code\n\$worker->run(); note('returned');\n");
        $err = ['file', "{$this->folder}/err", 'a'];
        $environment = ['OJS_SOCKET' => "{$this->folder}/s", 'FOLDER' => $this->folder] + getenv();
        $command = [PHP_BINARY, '-d', 'display_errors=stderr', "{$this->folder}/w.php"];
        $this->process = proc_open($command, [['file', '/dev/null', 'r'], $err, $err], $pipes, null, $environment);
    }

    /** Waits until it is so. */
    public function until(\Closure $isSo, string $what): void
    {
        for ($end = microtime(true) + self::PATIENCE; !$isSo(); $this->look()) {
            if (microtime(true) > $end) {
                throw new \AssertionError("not within " . self::PATIENCE . " s: $what. The worker printed: " . $this->err());
            }
        }
    }

    private function look(): void
    {
        $read = $this->server === null ? [] : ['server' => $this->server];
        foreach ($this->links as $number => $link) {
            $read[$number] = $link['stream'];
        }
        $none = null;
        if ($read === [] || !@stream_select($read, $none, $none, 0, 10_000)) {
            usleep($read === [] ? 5_000 : 0);
            return;
        }
        if (isset($read['server']) && ($stream = @stream_socket_accept($this->server, 0.0)) !== false) {
            stream_set_blocking($stream, false);
            $pid = socket_get_option(socket_import_stream($stream), SOL_SOCKET, self::SO_PEERCRED);
            $this->links[$this->came] = ['stream' => $stream, 'pid' => $pid, 'in' => '', 'free' => 0];
            $this->sendTo($this->came++, ['type' => 'hello', 'protocol' => 1, 'worker_id' => 'w', 'state' => 'running',
                'concurrency' => $this->concurrency, 'queues' => ['default'], 'max_frame' => 4_194_304]);
        }
        unset($read['server']);
        array_map($this->read(...), array_keys($read));
    }

    private function read(int $number): void
    {
        $link = &$this->links[$number];
        $chunk = (string) @fread($link['stream'], 262_144);
        $lines = explode("\n", $link['in'] . $chunk);
        $link['in'] = array_pop($lines);
        foreach ($lines as $line) {
            $frame = json_decode($line, true, flags: JSON_THROW_ON_ERROR);
            $this->frames[] = $frame;
            if ($frame['type'] === 'heartbeat' && !isset($this->held[$frame['job_id']])) {
                $error = ['type' => 'error', 'code' => 'not_held', 'message' => 'no', 'job_id' => $frame['job_id']];
                $this->sendTo($number, $error);
            } elseif ($frame['type'] === 'ready') {
                $link['free'] = $frame['concurrency'];
            } elseif (in_array($frame['type'], ['ack', 'fail', 'release'], true)) {
                unset($this->held[$frame['job_id']]);
            }
        }
        if ($chunk === '' && feof($link['stream'])) {
            foreach (array_keys($this->held, $number, true) as $id) {
                $this->frames[] = ['type' => 'died', 'job_id' => (string) $id];
                unset($this->held[$id]);
            }
            unset($this->links[$number]);
        }
    }

    private function sendTo(int $number, array $frame): void
    {
        @fwrite($this->links[$number]['stream'], json_encode($frame) . "\n");
    }

    /** A line for the last connection. */
    public function sendRaw(string $line): void
    {
        fwrite($this->links[array_key_last($this->links)]['stream'], "$line\n");
    }

    /** A frame for every connection. */
    public function send(array $frame): void
    {
        foreach (array_keys($this->links) as $number) {
            $this->sendTo($number, $frame);
        }
    }

    /** Gives a job to a process that is free, as soon as there is one. Returns its pid. */
    public function job(string $id, string $type, array $args = [], array $more = []): int
    {
        $free = fn (): ?int => array_key_first(array_filter($this->links, fn (array $link, int $number): bool =>
            $link['free'] > 0 && !in_array($number, $this->held, true), ARRAY_FILTER_USE_BOTH));
        $this->until(fn (): bool => $free() !== null, 'a free process');
        $number = $this->held[$id] = $free();
        $this->sendTo($number, ['type' => 'job', 'job' => $more + ['id' => $id, 'type' => $type, 'args' => $args]]);
        return $this->links[$number]['pid'];
    }

    /** Cancels a job, with the signal that the worker asked for. */
    public function cancel(string $id, string $reason): void
    {
        $this->sendTo($this->held[$id], ['type' => 'cancel', 'job_id' => $id, 'reason' => $reason, 'grace_ms' => 30_000]);
        posix_kill($this->links[$this->held[$id]]['pid'], SIGURG);
    }

    /** The next frame of these types; those before it are dropped. */
    public function frame(string ...$types): array
    {
        $found = null;
        $this->until(function () use ($types, &$found): bool {
            while ($found === null && ($frame = array_shift($this->frames)) !== null) {
                $found = in_array($frame['type'], $types, true) ? $frame : null;
            }
            return $found !== null;
        }, implode(' or ', $types));
        return $found;
    }

    public function answer(): array
    {
        return $this->frame('ack', 'fail', 'release', 'died');
    }

    /** Waits until the program has noted this. Returns the pid of the process that did. */
    public function noted(string $name): int
    {
        $this->until(fn (): bool => (int) @file_get_contents("{$this->folder}/$name") > 0, "the note $name");
        return (int) file_get_contents("{$this->folder}/$name");
    }

    public function hasNoted(string $name): bool
    {
        return is_file("{$this->folder}/$name");
    }

    public function pid(): int
    {
        return proc_get_status($this->process)['pid'];
    }

    public function connections(): int
    {
        return count($this->links);
    }

    public function err(): string
    {
        return (string) @file_get_contents("{$this->folder}/err");
    }

    public function hangUp(): void
    {
        array_map(fn (array $link) => fclose($link['stream']), $this->links);
        [$this->links, $this->held] = [[], []];
        fclose($this->server);
        $this->server = null;
    }

    /** Waits for the end of the worker. Returns its exit status, or 128 and the signal. */
    public function status(): int
    {
        $this->until(function (): bool {
            $now = proc_get_status($this->process);
            if (!$now['running'] && $this->status === null) {
                $this->status = $now['signaled'] ? 128 + $now['termsig'] : $now['exitcode'];
            }
            return $this->status !== null;
        }, 'the end of the worker');
        return $this->status;
    }

    public function close(): void
    {
        if ($this->status === null) {
            proc_terminate($this->process, SIGKILL);
        }
        array_map(fn (array $link) => posix_kill($link['pid'], SIGKILL), $this->links);
        proc_close($this->process);
        array_map(unlink(...), glob("{$this->folder}/*") ?: []);
        @rmdir($this->folder);
    }
}
