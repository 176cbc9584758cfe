<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function array_keys;
use function function_exists;
use function getenv;
use function implode;
use function in_array;
use function is_string;
use function min;
use function mt_srand;
use function restore_error_handler;
use function set_error_handler;
use function strlen;

/**
 * Takes jobs from ojs-init and has its handlers do them, one job at a time in each of its processes.
 */
final class Worker
{
    public const VERSION = '0.2.0';

    private readonly Runner $runner;
    private readonly Logger $log;
    /** @var list<\Closure> */
    private array $starters = [];
    private ?Supervisor $supervisor = null;
    private ?ProcessChannel $channel = null;
    private bool $isStopWanted = false;

    /**
     * @param ?int $concurrency most jobs at once, so many processes; default: what ojs-init says (`OJS_CONCURRENCY`),
     *                          and never more than that
     * @param ?float $stopGrace seconds that handlers get after a SIGTERM before the program ends without them; null: no
     *                          end is set
     * @param bool $handleSignals whether SIGTERM and SIGINT are the worker's
     * @param ?Logger $log default: text on standard error
     * @param mixed ...$unknown none: an option that is not known is an error which names those that are
     */
    public function __construct(
        private readonly ?int $concurrency = null,
        private readonly ?float $stopGrace = 0.5,
        private readonly bool $handleSignals = true,
        ?Logger $log = null,
        mixed ...$unknown,
    ) {
        self::refuse($unknown, 'new Worker', ['concurrency', 'stopGrace', 'handleSignals', 'log']);
        if ($concurrency !== null && ($concurrency < 1 || $concurrency > Pool::MOST)) {
            throw new \InvalidArgumentException("concurrency is a number of processes from 1 to 1000, not $concurrency");
        }
        if ($stopGrace !== null && !($stopGrace >= 0)) {
            throw new \InvalidArgumentException('stopGrace is a number of seconds from 0, or null');
        }
        $this->log = $log ?? new Logger();
        $this->runner = new Runner($this->log);
    }

    /**
     * Name the handler of a job type, or of several; `*` is for all that have none.
     *
     * The handler gets the job, and where it declares more parameters the job's arguments one by one:
     * `function (Job $job, string $to, int $count = 1)`. Arguments that do not fit fail the job for good.
     *
     * @param string|list<string> $types
     * @param callable(mixed ...): mixed $handler gives the result: anything that is JSON; null for none
     */
    public function job(string|array $types, callable $handler): self
    {
        foreach ((array) $types as $type) {
            if (!is_string($type) || $type === '' || strlen($type) > 1024) {
                throw new \InvalidArgumentException('a job type is a string of 1 to 1024 bytes');
            }
            $this->runner->register($type, $handler);
        }
        return $this;
    }

    /**
     * Put a function around all handlers; the first one is the outermost.
     *
     * @param callable(Job, callable(): mixed): mixed $function gives the result: that of `$next()`, or another
     */
    public function middleware(callable $function): self
    {
        $this->runner->addMiddleware($function);
        return $this;
    }

    /**
     * What each process does when it starts, before its first job: open its own connections, for instance. A connection
     * of the first process must not be used in the others.
     *
     * @param callable(): void $function
     */
    public function onProcessStart(callable $function): self
    {
        $this->starters[] = \Closure::fromCallable($function);
        return $this;
    }

    /**
     * Do one job here, for a test: the same way as under ojs-init, with middleware, and JSON in and out.
     *
     * @param array<mixed> $args
     * @param array<string, mixed> $meta
     * @param ?int $timeoutMs the same as `timeout`, in milliseconds
     * @param mixed $checkpoint what an earlier attempt saved
     * @param ?string $cancel reason of a cancel: shutdown, timeout, cancelled, lost
     * @param float $cancelAfter seconds after which it comes
     * @param ?float $stopping seconds that are left of a shutdown
     * @param float $stoppingAfter seconds after which it begins
     * @param ?float $timeout the job's timeout in seconds; when it is over the job is cancelled
     * @param ?float $patience seconds after which a handler that has not ended is given up; null: never. Without pcntl
     *                         nothing can end it
     * @throws Testing\HandlerHangs
     */
    public function perform(
        string $type,
        array $args = [],
        string $queue = 'default',
        int $attempt = 1,
        array $meta = [],
        ?int $timeoutMs = null,
        mixed $checkpoint = null,
        ?string $cancel = null,
        float $cancelAfter = 0.0,
        ?float $stopping = null,
        float $stoppingAfter = 0.0,
        string $id = '01900000-0000-7000-8000-000000000000',
        ?float $timeout = null,
        ?float $patience = Testing\Watchdog::PATIENCE,
    ): Outcome {
        $timeoutMs ??= $timeout === null ? null : $timeout * 1000;
        $now = Clock::now();
        $cancels = $cancel === null ? [] : [$cancel => $now + $cancelAfter];
        $envelope = [
            'id' => $id, 'type' => $type, 'queue' => $queue, 'state' => 'active', 'attempt' => $attempt,
            'args' => $args, 'meta' => (object) $meta,
        ];
        if ($timeoutMs !== null) {
            $envelope['timeout_ms'] = $timeoutMs;
            $cancels['timeout'] = min($cancels['timeout'] ?? INF, $now + $timeoutMs / 1000);
        }
        $frame = Json::encode(['type' => 'job', 'job' => $envelope, 'checkpoint' => $checkpoint], Json::DEPTH + 1);
        $channel = new MemoryChannel($cancels, $stopping === null ? null : $now + $stoppingAfter, $stopping);
        $run = fn (): Answer => $this->runner->run(Json::decode($frame), $channel);
        $answer = Testing\Watchdog::during($run, $patience, $type);
        $said = Json::decode($answer->frame);
        return new Outcome($answer->kind, $said['result'] ?? null, $said['error'] ?? null, $said['reason'] ?? null,
            $channel->checkpoints, $channel->progress);
    }

    /** running, quiet, or terminate. */
    public function state(): string
    {
        if ($this->channel === null) {
            return $this->supervisor?->state ?? 'running';
        }
        if ($this->channel->isOwnProcess()) {
            $this->channel->poll();
        }
        return $this->channel->state;
    }

    /**
     * Take no more jobs, finish those that are held, and let `run` return. From a handler, or from a signal's handler; before
     * `run` it is remembered.
     */
    public function stop(): void
    {
        $this->isStopWanted = true;
        $this->channel !== null ? $this->channel->stop() : $this->supervisor?->stop();
    }

    /**
     * Work until ojs-init says that it is over: then this returns, and the program ends with status 0.
     *
     * A SIGTERM while jobs are held, whose handlers do not end in time, ends the program with status 143.
     *
     * @param ?int $processes the same as `concurrency`, which counts if both are given and it is less
     * @param ?int $maxJobs a process is replaced by a fresh one after so many jobs
     * @param ?float $maxAge or after so many seconds
     * @param int|string|null $maxMemory or when it has more memory than that: bytes, or "256M"
     * @param mixed ...$unknown none, as in `new Worker`
     * @throws NotUnderOjsInit
     * @throws ProtocolError
     * @throws ConnectionLost
     */
    public function run(
        ?int $processes = null,
        ?int $maxJobs = null,
        ?float $maxAge = null,
        int|string|null $maxMemory = null,
        mixed ...$unknown,
    ): void {
        self::refuse($unknown, 'run', ['processes', 'maxJobs', 'maxAge', 'maxMemory']);
        if ($processes !== null && ($processes < 1 || $processes > Pool::MOST)) {
            throw new \InvalidArgumentException("processes is a number from 1 to 1000, not $processes");
        }
        $limits = new Limits($maxJobs, $maxAge, Limits::bytes($maxMemory));
        $path = $this->socket();
        $signals = new Signals($this->handleSignals);
        $signals->install();
        $makePool = function (Greeting $hello) use ($path, $processes, $limits, $signals): Pool {
            $size = min($hello->concurrency, $this->concurrency ?? Pool::MOST, $processes ?? Pool::MOST);
            $work = fn (LineStream $parent) => $this->work(
                new ProcessChannel($parent, $limits, $this->runner->types()), $path, $signals,
            );
            return new Pool($size, $limits, $this->log, $work);
        };
        $this->supervisor = new Supervisor($this->runner, $signals, $this->stopGrace, $makePool);
        if ($this->isStopWanted) {
            $this->supervisor->stop();
        }
        // What PHP warns of in the loop (a signal in a wait, a closed pipe) is looked at there.
        set_error_handler(static fn (): bool => true);
        try {
            $status = $this->supervisor->run($path);
        } finally {
            restore_error_handler();
            $signals->restore();
        }
        if ($status !== 0) {
            exit($status);
        }
    }

    /**
     * @param array<mixed> $unknown
     * @param list<string> $known
     */
    private static function refuse(array $unknown, string $where, array $known): void
    {
        if ($unknown !== []) {
            throw new \InvalidArgumentException('unknown option of ' . $where . ': '
                . Text::line(implode(', ', array_keys($unknown))) . '; there are ' . implode(', ', $known));
        }
    }

    private function socket(): string
    {
        if (!function_exists('pcntl_fork') || !function_exists('posix_kill')) {
            throw new OjsError('the extensions pcntl and posix are missing: this worker does each job in a process of its '
                . 'own. Debian: apt-get install php-cli; official image: docker-php-ext-install pcntl');
        }
        if (!$this->runner->hasHandlers()) {
            throw new OjsError('no handler: register one with $worker->job("some.type", ...)');
        }
        $path = getenv('OJS_SOCKET');
        if ($path === false || $path === '') {
            $mode = getenv('OJS_MODE');
            if (in_array($mode, ['gateway', 'exec', 'none'], true)) {
                throw new NotUnderOjsInit("OJS_SOCKET is not set, because ojs-init runs in mode $mode: leave OJS_MODE out, "
                    . 'or set it to socket');
            }
            throw new NotUnderOjsInit('OJS_SOCKET is not set: start this program as `ojs-init -- php worker.php`');
        }
        return $path;
    }

    /** What a process of the pool does. */
    private function work(ProcessChannel $channel, string $path, Signals $signals): never
    {
        restore_error_handler();
        $this->supervisor->forget();
        $this->channel = $channel;
        $signals->installInChild($channel);
        // The state of the first process's generator, where it was used, is a copy in each.
        mt_srand();
        try {
            foreach ($this->starters as $starter) {
                $starter();
            }
            if ($channel->isOwnProcess() && $channel->connect($path)) {
                $this->doJobs($channel);
            }
        } catch (\Throwable $error) {
            // Not further up: there is the program that called `run` in the first process.
            try {
                $this->log->error('a process cannot go on', ['exception' => $error]);
            } finally {
                exit(1);
            }
        }
        exit($channel->isOwnProcess() ? $channel->status() : 0);
    }

    private function doJobs(ProcessChannel $channel): void
    {
        $frame = $channel->nextJob();
        while ($frame !== null) {
            $answer = $this->runner->run($frame, $channel)->frame;
            if (!$channel->isOwnProcess()) {
                // The handler has forked and come back in both: the job is that of the first.
                return;
            }
            $frame = $channel->nextJob($answer);
        }
    }
}
