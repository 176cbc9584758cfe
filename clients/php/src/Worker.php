<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** Takes jobs from ojs-init and passes them to handlers, in processes that do one job at a time. */
final class Worker
{
    public const VERSION = '0.1.0';
    private const MOST = 1000;

    private readonly Runner $runner;
    /** @var list<\Closure> */
    private array $starters = [];
    /** Of the first process. */
    private ?int $pid = null;
    private bool $isStopWanted = false;

    /**
     * @param ?int $concurrency most jobs at once, which is the number of processes, from 1 to 1000;
     *        default and maximum: OJS_CONCURRENCY of ojs-init
     * @param ?object $log a PSR-3 logger; default: lines of text on standard error
     * @param ?object $container a PSR-11 container, which makes handlers that are registered by
     *        their class
     * @param mixed ...$unknown none: an unknown option is an error that names the known ones
     */
    public function __construct(
        private readonly ?int $concurrency = null,
        ?object $log = null,
        private readonly ?object $container = null,
        mixed ...$unknown,
    ) {
        if ($unknown !== []) {
            $names = implode(', ', array_keys($unknown));
            throw new \InvalidArgumentException("unknown option: $names; the options are concurrency, log, container");
        }
        if ($concurrency !== null && ($concurrency < 1 || $concurrency > self::MOST)) {
            throw new \InvalidArgumentException("concurrency is from 1 to 1000, not $concurrency");
        }
        $this->runner = new Runner(new Log($log));
    }

    /**
     * Register the handler of a job type, or of several; `*` is for all types without a handler.
     *
     * The handler gets the job, and the job's arguments one by one if it declares parameters for
     * them: `function (Job $job, string $to, int $count = 1)`. A job whose arguments do not fit
     * fails for good.
     *
     * @param string|list<string> $types each 1 to 1024 bytes
     * @param callable|class-string|array{class-string, string} $handler returns the result:
     *        anything that is JSON, or null for none. A class is made by the container, and called
     *        by `__invoke` or by the method named
     * @throws \InvalidArgumentException if the handler's signature cannot work
     */
    public function job(string|array $types, callable|string|array $handler): self
    {
        foreach ((array) $types as $type) {
            if (isset($this->runner->handlers[$type])) {
                throw new \InvalidArgumentException("$type has a handler already");
            }
            $this->runner->handlers[$type] = new Handler($handler, $this->container, $type);
        }
        return $this;
    }

    /**
     * Put a function around all handlers; the first one is the outermost.
     *
     * @param callable(Job, callable(): mixed): mixed $function returns the result: that of
     *        `$next()`, or another one
     */
    public function middleware(callable $function): self
    {
        $this->runner->middleware[] = $function(...);
        return $this;
    }

    /**
     * Run a function in each process before its first job. Open connections there: those of the
     * first process must not be used in the others.
     *
     * @param callable(): void $function
     */
    public function onProcessStart(callable $function): self
    {
        $this->starters[] = $function(...);
        return $this;
    }

    /**
     * Call a function once for each job that fails, whatever the reason: an error of the handler,
     * Retry, Discard, a timeout, arguments that do not fit, a type without a handler. Jobs that are
     * given back do not fail.
     *
     * @param callable(Job, \Throwable): void $function such as the one that reports to an error
     *        tracker
     */
    public function onFailure(callable $function): self
    {
        $this->runner->failureHooks[] = $function(...);
        return $this;
    }

    /**
     * Do one job in this process, for a test: with middleware, and JSON in and out, as under
     * ojs-init. Times are in seconds. A cancel throws in the handler at its next call of the job's
     * methods; no signal comes.
     *
     * @param array<mixed> $args
     * @param array<string, mixed> $meta
     * @param ?float $timeout after which the job is cancelled
     * @param mixed $checkpoint what an earlier attempt saved
     * @param ?string $cancel reason of a cancel: shutdown, timeout, cancelled or lost
     * @param float $cancelAfter when it comes
     * @param ?float $stopping what is left of a shutdown
     * @param float $stoppingAfter when the shutdown begins
     */
    public function perform(
        string $type, array $args = [], string $queue = 'default', int $attempt = 1, array $meta = [],
        mixed $checkpoint = null, ?string $cancel = null, float $cancelAfter = 0.0,
        ?float $stopping = null, float $stoppingAfter = 0.0, ?float $timeout = null, ?int $maxAttempts = null,
        string $id = '01900000-0000-7000-8000-000000000000',
    ): Outcome {
        $now = Session::now();
        $cancels = ($cancel === null ? [] : [$cancel => $now + $cancelAfter])
            + ($timeout === null ? [] : ['timeout' => $now + $timeout]);
        $envelope = [
            'id' => $id, 'type' => $type, 'queue' => $queue, 'attempt' => $attempt, 'max_attempts' => $maxAttempts,
            'args' => $args, 'meta' => (object) $meta, 'timeout' => $timeout,
        ];
        $frame = Json::decode(Json::encode(['job' => $envelope, 'checkpoint' => $checkpoint]));
        $session = new TestSession($stopping === null ? null : $now + $stoppingAfter, $stopping ?? 0.0, $cancels);
        $answer = Json::decode($this->runner->run($frame, $session));
        $checkpoints = array_column($session->sent['checkpoint'], 'state');
        [$result, $error, $reason] = [$answer['result'] ?? null, $answer['error'] ?? null, $answer['reason'] ?? null];
        return new Outcome($answer['type'], $result, $error, $reason, $checkpoints, $session->sent['progress']);
    }

    /**
     * Take no more jobs, finish those that are held, and let `run` return. For handlers, signal
     * handlers, and before `run`.
     */
    public function stop(): void
    {
        $this->isStopWanted = true;
        if ($this->pid !== null) {
            posix_kill($this->pid, SIGTERM);
        }
    }

    /**
     * Work until ojs-init ends the work, or until SIGTERM. Then this returns, and the program ends
     * with status 0. The program ends with status 1 if ojs-init ends while jobs are held, and if it
     * was not started by ojs-init.
     */
    public function run(): void
    {
        try {
            $path = $this->socket();
            $this->pid = getmypid();
            $prefork = new Prefork($this->runner, fn () => $this->work($path));
            $status = $this->isStopWanted ? 0 : $prefork->run($path, $this->concurrency ?? self::MOST);
        } catch (OjsError $error) {
            fwrite(STDERR, $error->getMessage() . "\n");
            $status = 1;
        }
        if ($status !== 0) {
            exit($status);
        }
    }

    private function socket(): string
    {
        if (!function_exists('pcntl_fork') || !function_exists('posix_kill')) {
            throw new OjsError('the extensions pcntl and posix are missing, which fork a process for each job at once. '
                . 'Debian: apt-get install php-cli; official image: docker-php-ext-install pcntl');
        }
        if ($this->runner->handlers === []) {
            throw new OjsError('no handler: register one with $worker->job("some.type", ...)');
        }
        $mode = getenv('OJS_MODE');
        return getenv('OJS_SOCKET') ?: throw new OjsError(in_array($mode, ['gateway', 'exec', 'none'], true)
            ? "OJS_SOCKET is not set, because ojs-init runs in mode $mode: leave OJS_MODE out, or set it to socket"
            : 'OJS_SOCKET is not set. Run it as: ojs-init -- php ' . ($_SERVER['argv'][0] ?? 'worker.php'));
    }

    private function work(string $path): never
    {
        $status = 1;
        try {
            // Each process would draw the same numbers as the others.
            mt_srand();
            $status = (new SocketSession($this->runner))->run($path, $this->starters);
        } catch (\Throwable $error) {
            // It must not reach the code of the program around `run`.
            $this->runner->log->write('error', 'a process cannot go on', $error);
        } finally {
            exit($status);
        }
    }
}
