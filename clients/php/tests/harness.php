<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests;

/** A test is a sentence and a function that throws when the sentence is not true. */
final class Tests
{
    /** @var array<string, \Closure> */
    public static array $all = [];

    public static function same(mixed $expected, mixed $got, string $about = ''): void
    {
        if ($expected !== $got) {
            throw new \AssertionError(trim("$about expected " . var_export($expected, true) . ', got '
                . var_export($got, true)));
        }
    }

    public static function has(string $needle, string $text): void
    {
        if (!str_contains($text, $needle)) {
            throw new \AssertionError("expected \"$needle\" in: $text");
        }
    }

    public static function throws(string $class, \Closure $call): \Throwable
    {
        try {
            $call();
        } catch (\Throwable $error) {
            self::same($class, $error::class, $error->getMessage());
            return $error;
        }
        throw new \AssertionError("expected $class, and nothing was thrown");
    }
}

function test(string $sentence, \Closure $function): void
{
    Tests::$all[$sentence] = $function;
}

/** Plays ojs-init for one worker: a real process of PHP with this code as its handlers. */
final class FakeInit
{
    public const PATIENCE = 20.0;
    private string $folder;
    /** @var resource */
    private $server;
    /** @var resource */
    private $connection;
    /** @var resource */
    private $process;
    private string $in = '';
    private ?int $status = null;

    /** @param string $code PHP that registers handlers at $worker, and runs it */
    public function __construct(string $code, array $hello = [])
    {
        $this->folder = sys_get_temp_dir() . '/ojs-php-' . bin2hex(random_bytes(6));
        mkdir($this->folder, 0700);
        $this->server = stream_socket_server("unix://{$this->folder}/s");
        $head = '<?php declare(strict_types=1); use Ojs\Worker\{Worker, Job, Retry, Discard, Release, Logger}; require '
            . var_export(dirname(__DIR__) . '/autoload.php', true) . ";\n";
        file_put_contents("{$this->folder}/w.php", $head . $code);
        $err = ['file', "{$this->folder}/err", 'a'];
        $this->process = proc_open([PHP_BINARY, "{$this->folder}/w.php"], [['file', '/dev/null', 'r'], $err, $err], $pipes,
            null, ['OJS_SOCKET' => "{$this->folder}/s", 'FOLDER' => $this->folder] + getenv());
        $this->connection = @stream_socket_accept($this->server, self::PATIENCE)
            ?: throw new \AssertionError('the worker has not connected: ' . $this->err());
        stream_set_blocking($this->connection, false);
        $this->send($hello + ['type' => 'hello', 'protocol' => 1, 'worker_id' => 'w', 'state' => 'running',
            'concurrency' => 2, 'queues' => ['default'], 'max_frame' => 4_194_304]);
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
        $until = microtime(true) + self::PATIENCE;
        // Never 0: that would be the tests' own process group.
        while (($pid = (int) @file_get_contents("{$this->folder}/$file")) < 1) {
            if (microtime(true) > $until) {
                throw new \AssertionError("no process is in $file. The worker said: " . $this->err());
            }
            usleep(5_000);
        }
        return $pid;
    }

    public function send(array $frame): void
    {
        $text = json_encode($frame) . "\n";
        $until = microtime(true) + self::PATIENCE;
        while ($text !== '') {
            $written = @fwrite($this->connection, $text);
            if ($written === false) {
                throw new \AssertionError("the worker has closed its connection before this {$frame['type']}, and said: "
                    . $this->err());
            }
            if ($written === 0 && microtime(true) > $until) {
                throw new \AssertionError("the worker does not read this {$frame['type']}. It said: " . $this->err());
            }
            $text = substr($text, $written);
            $write = [$this->connection];
            $none = null;
            if ($text !== '') {
                stream_select($none, $write, $none, 0, 50_000);
            }
        }
    }

    public function job(string $id, string $type, array $args = [], array $more = [], array $beside = []): void
    {
        $this->send(['type' => 'job', 'job' => $more + ['id' => $id, 'type' => $type, 'args' => $args]] + $beside);
    }

    /** The next frame of this type (or of any); null: the connection is closed. */
    public function frame(?string $type = null): ?array
    {
        $until = microtime(true) + self::PATIENCE;
        while (true) {
            while (($end = strpos($this->in, "\n")) !== false) {
                $frame = json_decode(substr($this->in, 0, $end), true, 512, JSON_THROW_ON_ERROR);
                $this->in = substr($this->in, $end + 1);
                if ($type === null || $frame['type'] === $type) {
                    return $frame;
                }
            }
            $read = [$this->connection];
            $none = null;
            // Also of a worker that says other frames all the time.
            if (microtime(true) > $until) {
                throw new \AssertionError('no frame ' . ($type ?? '') . ' came. The worker said: ' . $this->err());
            }
            if (!stream_select($read, $none, $none, 0, 50_000)) {
                continue;
            }
            $chunk = (string) fread($this->connection, 262_144);
            if ($chunk === '' && feof($this->connection)) {
                return null;
            }
            $this->in .= $chunk;
        }
    }

    public function err(): string
    {
        return (string) @file_get_contents("{$this->folder}/err");
    }

    public function hangUp(): void
    {
        fclose($this->connection);
    }

    /** The exit status; 128 + signal. */
    public function status(): int
    {
        $until = microtime(true) + self::PATIENCE;
        while ($this->status === null) {
            $now = proc_get_status($this->process);
            if (!$now['running']) {
                $this->status = $now['signaled'] ? 128 + $now['termsig'] : $now['exitcode'];
            } elseif (microtime(true) > $until) {
                throw new \AssertionError('the worker has not ended');
            }
            usleep(5_000);
        }
        return $this->status;
    }

    public function close(): void
    {
        if ($this->status === null && proc_get_status($this->process)['running']) {
            proc_terminate($this->process, SIGKILL);
        }
        proc_close($this->process);
        array_map(unlink(...), glob("{$this->folder}/*") ?: []);
        @rmdir($this->folder);
    }
}

/** A test with a worker under a FakeInit. */
function socketTest(string $sentence, string $code, \Closure $function, array $hello = []): void
{
    test($sentence, static function () use ($code, $function, $hello): void {
        $init = new FakeInit($code, $hello);
        try {
            $function($init);
        } finally {
            $init->close();
        }
    });
}
