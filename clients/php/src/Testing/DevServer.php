<?php

declare(strict_types=1);

namespace Ojs\Worker\Testing;

use function bin2hex;
use function explode;
use function file_get_contents;
use function getenv;
use function getmypid;
use function intdiv;
use function is_executable;
use function is_file;
use function json_decode;
use function json_encode;
use function microtime;
use function mkdir;
use function proc_close;
use function proc_get_status;
use function proc_open;
use function proc_terminate;
use function random_bytes;
use function rawurlencode;
use function rmdir;
use function stream_context_create;
use function substr;
use function sys_get_temp_dir;
use function trim;
use function unlink;
use function usleep;

use Ojs\Worker\OjsError;

/**
 * A development server (`ojs-devserver`, an Open Job Spec backend in memory) for tests, on a port of its own. It ends
 * with `close`, or with this object.
 */
final class DevServer
{
    private const START_SECONDS = 10.0;
    private const END_SECONDS = 5.0;

    /** @var ?resource */
    private $process = null;
    private string $folder = '';
    private string $url = '';
    private readonly int $owner;

    /**
     * @param list<string> $options more options of `ojs-devserver serve`, such as `--dialect go`
     * @throws DevServerMissing when there is no such program
     * @throws OjsError when it does not come up within 10 s
     */
    public function __construct(array $options = [])
    {
        $this->owner = getmypid();
        $program = self::program() ?? throw new DevServerMissing('ojs-devserver is not there: neither OJS_DEVSERVER names an '
            . 'executable file nor is it on PATH. In the sources of ojs-init `cargo build -p ojs-devserver` makes it; tests of '
            . 'handlers alone need none: $worker->perform');
        $this->folder = sys_get_temp_dir() . '/ojs-devserver-' . bin2hex(random_bytes(8));
        mkdir($this->folder, 0700);
        $out = ['file', $this->folder . '/log', 'a'];
        $command = [$program, 'serve', '--listen', '127.0.0.1:0', '--port-file', $this->folder . '/url', ...$options];
        $process = proc_open($command, [['file', '/dev/null', 'r'], $out, $out], $pipes);
        if ($process === false) {
            throw new OjsError("$program cannot be started");
        }
        $this->process = $process;
        $until = microtime(true) + self::START_SECONDS;
        while (($url = trim((string) @file_get_contents($this->folder . '/url'))) === '') {
            if (!proc_get_status($process)['running'] || microtime(true) > $until) {
                $said = trim((string) file_get_contents($this->folder . '/log'));
                $this->close();
                throw new OjsError("ojs-devserver does not come up: $said");
            }
            usleep(10_000);
        }
        $this->url = $url;
    }

    /** What OJS_DEVSERVER names, else `ojs-devserver` on PATH; null: it is not there. */
    public static function program(): ?string
    {
        $named = getenv('OJS_DEVSERVER');
        if ($named !== false && $named !== '') {
            return is_executable($named) ? $named : null;
        }
        foreach (explode(':', (string) getenv('PATH')) as $folder) {
            if ($folder !== '' && is_file("$folder/ojs-devserver") && is_executable("$folder/ojs-devserver")) {
                return "$folder/ojs-devserver";
            }
        }
        return null;
    }

    /** Where it is: `http://127.0.0.1:PORT`, for OJS_URL. */
    public function url(): string
    {
        return $this->url;
    }

    /**
     * @param list<mixed> $args
     * @param array<string, mixed> $options queue, timeout_ms, meta, retry
     * @return string the job's id
     */
    public function enqueue(string $type, array $args = [], array $options = []): string
    {
        $body = ['type' => $type, 'args' => $args, 'options' => (object) $options];
        return $this->ask('POST', '/ojs/v1/jobs', $body)['job']['id'];
    }

    /** @return array<string, mixed> all that the server knows about the job: state, attempt, result, errors */
    public function job(string $id): array
    {
        return $this->ask('GET', '/ojs/v1/jobs/' . rawurlencode($id))['job'];
    }

    /**
     * Wait until a job is in a state: completed, retryable, discarded, available, active, cancelled.
     *
     * @return array<string, mixed> the job
     */
    public function awaitState(string $id, string $state, float $seconds = 10.0): array
    {
        $until = microtime(true) + $seconds;
        while (($job = $this->job($id))['state'] !== $state) {
            if (microtime(true) > $until) {
                throw new OjsError("job $id is {$job['state']} after $seconds s, not $state");
            }
            usleep(10_000);
        }
        return $job;
    }

    /**
     * @param ?array<string, mixed> $body
     * @return array<string, mixed>
     */
    private function ask(string $method, string $path, ?array $body = null): array
    {
        $context = stream_context_create(['http' => [
            'method' => $method, 'ignore_errors' => true, 'timeout' => 10, 'protocol_version' => 1.1,
            'header' => "Content-Type: application/openjobspec+json\r\nConnection: close",
            'content' => $body === null ? '' : json_encode($body, JSON_THROW_ON_ERROR),
        ]]);
        $text = @file_get_contents($this->url . $path, false, $context);
        $status = (int) (explode(' ', $http_response_header[0] ?? '')[1] ?? 0);
        if ($text === false || intdiv($status, 100) !== 2) {
            throw new OjsError("ojs-devserver answers $status: " . substr((string) $text, 0, 1000));
        }
        return json_decode($text, true, 512, JSON_THROW_ON_ERROR);
    }

    /** End it, and forget all jobs. */
    public function close(): void
    {
        if ($this->process === null || getmypid() !== $this->owner) {
            return;
        }
        proc_terminate($this->process);
        $until = microtime(true) + self::END_SECONDS;
        while (proc_get_status($this->process)['running'] && microtime(true) < $until) {
            usleep(5_000);
        }
        if (proc_get_status($this->process)['running']) {
            proc_terminate($this->process, SIGKILL);
        }
        proc_close($this->process);
        $this->process = null;
        foreach (['log', 'url'] as $name) {
            @unlink("{$this->folder}/$name");
        }
        @rmdir($this->folder);
    }

    public function __destruct()
    {
        $this->close();
    }
}
