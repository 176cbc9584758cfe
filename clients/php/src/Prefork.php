<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * The worker's first process: keeps N processes at work, replaces those that die, passes SIGTERM
 * on, and ends last.
 *
 * Its own connection is never ready for jobs. It brings the number of jobs, the shutdown, and the
 * end of ojs-init.
 *
 * @internal
 */
final class Prefork
{
    private const TICK_SECONDS = 0.5;
    /** From the end of ojs-init to SIGKILL for processes whose handlers go on. */
    private const LOST_SECONDS = 0.25;
    /** A process that dies younger than this makes the pause before the next start grow. */
    private const YOUNG_SECONDS = 1.0;
    private const FIRST_PAUSE = 0.1;
    private const LONGEST_PAUSE = 5.0;

    private Link $link;
    /** @var array<int, float> when each process was started, by pid */
    private array $children = [];
    private bool $isTerminating = false;
    private bool $hasSigterm = false;
    private ?float $killAt = null;
    private int $status = 0;
    private float $pause = 0.0;
    private float $mayStartAt = 0.0;

    /** @param \Closure(): never $child what each process does */
    public function __construct(private readonly Runner $runner, private readonly \Closure $child)
    {}

    private function stop(): void
    {
        $this->hasSigterm = true;
        $this->killAll(SIGTERM);
    }

    private function killAll(int $signal): void
    {
        array_map(static fn (int $pid): bool => posix_kill($pid, $signal), array_keys($this->children));
    }

    /** @return int the exit status: 1 if ojs-init ended while jobs were held, else 0 */
    public function run(string $path, int $most): int
    {
        $before = pcntl_signal_get_handler(SIGTERM);
        pcntl_async_signals(false);
        // The socket's warnings (a signal during a wait, a closed connection) are no news for the
        // program.
        set_error_handler(static fn (): bool => true);
        pcntl_signal(SIGTERM, $this->stop(...));
        pcntl_signal(SIGINT, $this->stop(...));
        pcntl_signal(SIGPIPE, SIG_IGN);
        // Its handler has nothing to do: the signal ends a wait.
        pcntl_signal(SIGCHLD, static fn () => null);
        $this->link = new Link($path);
        $hello = $this->link->hello(fn (): bool => $this->hasSigterm);
        $size = strlen($this->runner->ready(1));
        $longest = $hello['max_frame'] ?? PHP_INT_MAX;
        if ($size > $longest) {
            throw new OjsError("the ready with the job types has $size bytes, and ojs-init takes $longest (worker.max_frame)");
        }
        if ($hello !== null && $hello['state'] !== 'terminate') {
            $this->supervise(min($hello['concurrency'], $most));
        }
        // ojs-init may send SIGTERM late.
        pcntl_signal(SIGTERM, is_callable($before) ? $before : SIG_IGN);
        restore_error_handler();
        return $this->status;
    }

    private function supervise(int $size): void
    {
        while (true) {
            pcntl_signal_dispatch();
            $this->reap();
            $isEnding = $this->isAskedToEnd() || $this->link->isClosed;
            if ($isEnding && $this->children === []) {
                return;
            }
            while (!$isEnding && count($this->children) < $size && Session::now() >= $this->mayStartAt) {
                $this->start();
            }
            $wait = $this->pause > 0 ? self::FIRST_PAUSE : self::TICK_SECONDS;
            $this->link->isClosed ? $this->endAll() : $this->read($wait);
        }
    }

    /**
     * ojs-init has ended. Idle processes see that; a signal wakes the others, and SIGKILL ends
     * those that go on.
     */
    private function endAll(): void
    {
        $this->killAt ??= Session::now() + self::LOST_SECONDS;
        // Their connections close at the same time, but perhaps not in the same moment.
        usleep(25_000);
        // A signal that comes just before a wait does not end it, so it comes again.
        $this->killAll(Session::now() >= $this->killAt ? SIGKILL : SIGURG);
    }

    private function start(): void
    {
        $pid = pcntl_fork();
        if ($pid === 0) {
            // Closes the connection: the new process has its own.
            unset($this->link);
            ($this->child)();
        }
        if ($pid > 0) {
            $this->children[$pid] = Session::now();
        } else {
            $this->runner->log->write('error', 'cannot start a process: ' . pcntl_strerror(pcntl_get_last_error()));
            $this->pause(0.0);
        }
    }

    private function reap(): void
    {
        foreach ($this->children as $pid => $startedAt) {
            if (pcntl_waitpid($pid, $status, WNOHANG) !== $pid) {
                continue;
            }
            unset($this->children[$pid]);
            // A process that ended with ojs-init does not count as one that died.
            $this->read(0.0);
            $isClean = pcntl_wifexited($status) && pcntl_wexitstatus($status) === 0;
            if ($this->link->isClosed) {
                $this->status = $isClean ? $this->status : 1;
            } elseif (!$isClean || (!$this->isAskedToEnd() && Session::now() - $startedAt < self::YOUNG_SECONDS)) {
                // die("no database") has status 0.
                $this->runner->log->write('error', "process $pid " . (pcntl_wifexited($status)
                    ? 'exited with status ' . pcntl_wexitstatus($status)
                    : 'was killed by signal ' . pcntl_wtermsig($status)));
                $this->pause(Session::now() - $startedAt);
            }
        }
    }

    private function isAskedToEnd(): bool
    {
        return $this->isTerminating || $this->hasSigterm;
    }

    private function pause(float $age): void
    {
        $longer = min(self::LONGEST_PAUSE, max(self::FIRST_PAUSE, 2 * $this->pause));
        $this->pause = $age < self::YOUNG_SECONDS ? $longer : 0.0;
        $this->mayStartAt = Session::now() + $this->pause;
    }

    private function read(float $seconds): void
    {
        foreach ($this->link->lines($seconds) as $line) {
            $frame = json_decode($line, true);
            if ($frame['type'] === 'ping') {
                $this->link->write(Json::encode(['type' => 'pong', 'id' => $frame['id']]));
            } elseif ($frame['type'] === 'lifecycle') {
                $this->isTerminating = $this->isTerminating || $frame['state'] === 'terminate';
            }
        }
    }
}
