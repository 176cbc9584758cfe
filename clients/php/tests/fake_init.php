<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests;

/** A connection of the worker's, as ojs-init sees it. */
final class FakeConnection
{
    public string $in = '';
    public int $concurrency = 0;
    /** @var array<string, true> ids of the jobs that it has */
    public array $held = [];

    /** @param resource $stream */
    public function __construct(public readonly mixed $stream, public readonly int $pid)
    {
    }
}

/** Plays ojs-init for one worker: a real process of PHP with this code as its handlers. Each of its processes has a connection. */
final class FakeInit
{
    public const PATIENCE = 20.0;
    /** As Linux has it; PHP has no name for it. */
    private const SO_PEERCRED = 17;
    private string $folder;
    /** @var resource */
    private $server;
    /** @var array<int, FakeConnection> in the order in which they came: the first is that of the first process */
    private array $connections = [];
    private int $came = 0;
    /** @var list<array<string, mixed>> */
    private array $said = [];
    /** @var array<string, mixed> */
    private array $hello;
    /** @var resource */
    private $process;
    private ?int $status = null;

    /** @param string $code PHP that registers handlers at $worker, and runs it */
    public function __construct(string $code, array $hello = [])
    {
        $this->folder = sys_get_temp_dir() . '/ojs-php-' . bin2hex(random_bytes(6));
        mkdir($this->folder, 0700);
        $this->server = stream_socket_server("unix://{$this->folder}/s");
        stream_set_blocking($this->server, false);
        $head = '<?php declare(strict_types=1); use Ojs\Worker\{Worker, Job, Retry, Discard, Release, Logger}; require '
            . var_export(dirname(__DIR__) . '/autoload.php', true) . ";\n";
        file_put_contents("{$this->folder}/w.php", $head . $code);
        $err = ['file', "{$this->folder}/err", 'a'];
        $this->hello = $hello + ['type' => 'hello', 'protocol' => 1, 'worker_id' => 'w', 'state' => 'running',
            'concurrency' => 2, 'queues' => ['default'], 'max_frame' => 4_194_304];
        $this->process = proc_open([PHP_BINARY, "{$this->folder}/w.php"], [['file', '/dev/null', 'r'], $err, $err], $pipes,
            null, ['OJS_SOCKET' => "{$this->folder}/s", 'FOLDER' => $this->folder] + getenv());
        $this->until(fn (): bool => $this->came > 0, 'the worker has not connected');
    }

    public function pid(): int
    {
        return proc_get_status($this->process)['pid'];
    }

    public function folder(): string
    {
        return $this->folder;
    }

    /** The process that a handler or the program has put into this file. */
    public function pidFrom(string $file): int
    {
        // Never 0: that would be the tests' own process group.
        $pid = fn (): int => (int) @file_get_contents("{$this->folder}/$file");
        $this->until(fn (): bool => $pid() > 0, "no process is in $file");
        return $pid();
    }

    /** How many connections there are now, the first process's included. */
    public function connections(): int
    {
        $this->round(0.0);
        return count($this->connections);
    }

    /** How many jobs all connections take together. */
    public function capacity(): int
    {
        $this->round(0.0);
        return array_sum(array_map(static fn (FakeConnection $connection): int => $connection->concurrency, $this->connections));
    }

    /** A frame for all connections. */
    public function send(array $frame): void
    {
        if ($this->connections() === 0) {
            throw new \AssertionError('the worker is gone. It said: ' . $this->err());
        }
        foreach ($this->connections as $number => $connection) {
            $this->sendTo($number, $frame);
        }
        if ($frame['type'] === 'lifecycle') {
            $this->hello['state'] = $frame['state'];
        }
    }

    private function sendTo(int $number, array $frame): void
    {
        $this->write($number, json_encode($frame) . "\n", $frame['type']);
    }

    private function write(int $number, string $text, string $what): void
    {
        $until = microtime(true) + self::PATIENCE;
        while ($text !== '') {
            $stream = $this->connections[$number]->stream;
            $written = @fwrite($stream, $text);
            if ($written === false) {
                throw new \AssertionError("the worker has closed its connection before this $what, and said: "
                    . $this->err());
            }
            if ($written === 0 && microtime(true) > $until) {
                throw new \AssertionError("the worker does not read this $what. It said: " . $this->err());
            }
            $text = substr($text, $written);
            $write = [$stream];
            $none = null;
            if ($text !== '') {
                stream_select($none, $write, $none, 0, 50_000);
            }
        }
    }

    /** Gives a job to a process that has none, as soon as there is one. */
    public function job(string $id, string $type, array $args = [], array $more = []): void
    {
        $this->give(['type' => 'job', 'job' => $more + ['id' => $id, 'type' => $type, 'args' => $args]]);
    }

    public function give(array $frame): void
    {
        $this->until(fn (): bool => $this->idle() !== null, 'no process is ready for a job');
        $number = $this->idle();
        $this->connections[$number]->held[$frame['job']['id']] = true;
        $this->sendTo($number, $frame);
    }

    /** A line that is perhaps no frame, for a process that has no job. */
    public function giveText(string $line): void
    {
        $this->until(fn (): bool => $this->idle() !== null, 'no process is ready for a job');
        $this->write($this->idle(), "$line\n", 'line');
    }

    private function idle(): ?int
    {
        foreach ($this->connections as $number => $connection) {
            if (count($connection->held) < $connection->concurrency) {
                return $number;
            }
        }
        return null;
    }

    /** Cancels a job, with the signal that the worker has asked for. */
    public function cancel(string $id, string $reason): void
    {
        foreach ($this->connections as $number => $connection) {
            if (isset($connection->held[$id])) {
                $this->sendTo($number, ['type' => 'cancel', 'job_id' => $id, 'reason' => $reason, 'grace_ms' => 30_000]);
                posix_kill($connection->pid, SIGURG);
            }
        }
    }

    /** The process that has this job. */
    public function holder(string $id): int
    {
        foreach ($this->connections as $connection) {
            if (isset($connection->held[$id])) {
                return $connection->pid;
            }
        }
        throw new \AssertionError("nobody has job $id");
    }

    /** The next frame of this type (or of any but ready). */
    public function frame(?string $type = null): array
    {
        return $this->frameWhere(
            fn (array $frame): bool => $type === null ? $frame['type'] !== 'ready' : $frame['type'] === $type,
            'no frame ' . ($type ?? '') . ' came',
        );
    }

    /** The next frame of which this is true; those before it are dropped. */
    public function frameWhere(\Closure $isMeant, string $otherwise): array
    {
        $found = null;
        $this->until(function () use ($isMeant, &$found): bool {
            while ($found === null && ($frame = array_shift($this->said)) !== null) {
                $found = $isMeant($frame) ? $frame : null;
            }
            return $found !== null;
        }, $otherwise);
        return $found;
    }

    /** Wait until it is so; fails with the other words. */
    public function until(\Closure $isSo, string $otherwise): void
    {
        $end = microtime(true) + self::PATIENCE;
        while (!$isSo()) {
            if (microtime(true) > $end) {
                throw new \AssertionError("$otherwise. The worker said: " . $this->err());
            }
            $this->round(0.005);
        }
    }

    /** Take in who connects, what is said, and who ends. */
    private function round(float $seconds): void
    {
        $read = array_map(static fn (FakeConnection $connection): mixed => $connection->stream, $this->connections);
        $read['server'] = $this->server;
        $none = null;
        if (!@stream_select($read, $none, $none, 0, (int) ($seconds * 1e6))) {
            return;
        }
        if (isset($read['server']) && ($stream = @stream_socket_accept($this->server, 0.0)) !== false) {
            stream_set_blocking($stream, false);
            // The first number of what comes is the pid.
            $pid = socket_get_option(socket_import_stream($stream), SOL_SOCKET, self::SO_PEERCRED);
            $this->connections[$this->came++] = new FakeConnection($stream, $pid);
            // Whoever has connected may have ended already: that is read below, another time.
            @fwrite($stream, json_encode($this->hello) . "\n");
        }
        foreach ($read as $number => $stream) {
            if ($number !== 'server') {
                $this->hear($number);
            }
        }
    }

    private function hear(int $number): void
    {
        $connection = $this->connections[$number];
        $chunk = (string) fread($connection->stream, 262_144);
        $connection->in .= $chunk;
        while (($end = strpos($connection->in, "\n")) !== false) {
            $frame = json_decode(substr($connection->in, 0, $end), true, 512, JSON_THROW_ON_ERROR);
            $connection->in = substr($connection->in, $end + 1);
            $this->note($number, $frame);
        }
        if ($chunk === '' && feof($connection->stream)) {
            // As ojs-init has it of a process that ended with a job.
            foreach (array_keys($connection->held) as $id) {
                $this->said[] = ['type' => 'died', 'job_id' => (string) $id];
            }
            fclose($connection->stream);
            unset($this->connections[$number]);
        }
    }

    private function note(int $number, array $frame): void
    {
        $connection = $this->connections[$number];
        if ($number === 0 && $frame['type'] !== 'pong') {
            throw new \AssertionError('the first process takes no jobs, and says ' . json_encode($frame));
        }
        if ($frame['type'] === 'ready') {
            $connection->concurrency = $frame['concurrency'];
        } elseif (in_array($frame['type'], ['ack', 'fail', 'release'], true)) {
            unset($connection->held[$frame['job_id']]);
        } elseif ($frame['type'] === 'heartbeat' && !isset($connection->held[$frame['job_id']])) {
            $this->sendTo($number, ['type' => 'error', 'code' => 'not_held', 'message' => 'no', 'job_id' => $frame['job_id']]);
            return;
        }
        $this->said[] = $frame;
    }

    public function err(): string
    {
        return (string) @file_get_contents("{$this->folder}/err");
    }

    /** Wait until the worker has said this on its standard error. */
    public function errHas(string $text): void
    {
        $this->until(fn (): bool => str_contains($this->err(), $text), "\"$text\" was not said");
    }

    public function hangUp(): void
    {
        foreach ($this->connections as $connection) {
            fclose($connection->stream);
        }
        $this->connections = [];
        fclose($this->server);
        $this->server = stream_socket_server("unix://{$this->folder}/unused");
    }

    /** Close the connection of the process that has this job, alone. */
    public function hangUpOn(string $id): void
    {
        foreach ($this->connections as $number => $connection) {
            if (isset($connection->held[$id])) {
                fclose($connection->stream);
                unset($this->connections[$number]);
            }
        }
    }

    /** The exit status; 128 + signal. */
    public function status(): int
    {
        $this->until(function (): bool {
            $now = proc_get_status($this->process);
            if (!$now['running'] && $this->status === null) {
                $this->status = $now['signaled'] ? 128 + $now['termsig'] : $now['exitcode'];
            }
            return $this->status !== null;
        }, 'the worker has not ended');
        return $this->status;
    }

    public function close(): void
    {
        if ($this->status === null && proc_get_status($this->process)['running']) {
            proc_terminate($this->process, SIGKILL);
        }
        foreach ($this->connections as $connection) {
            // Those that a test has left deaf, in its own time.
            posix_kill($connection->pid, SIGKILL);
        }
        proc_close($this->process);
        array_map(unlink(...), glob("{$this->folder}/*") ?: []);
        @rmdir($this->folder);
    }
}
