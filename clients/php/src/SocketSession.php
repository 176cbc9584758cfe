<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * One process of the worker: its own connection to ojs-init, and one job after the other.
 *
 * Nobody reads the connection while a handler runs. Therefore `ready` asks ojs-init to send SIGURG
 * with each cancel: the signal interrupts a wait of the handler, and its signal handler reads the
 * frame.
 *
 * @internal
 */
final class SocketSession extends Session
{
    private const IDLE_SECONDS = 1.0;
    /** The id of no job. ojs-init answers a heartbeat for it once it has read what came before. */
    private const NO_JOB = 'ojs-worker-stop';

    /** Null until this process is ready. */
    private ?Link $link = null;
    private readonly int $pid;
    /** @var ?array<string, mixed> a job frame that has not begun; ojs-init sends one at a time */
    private ?array $next = null;
    private bool $isNotOffered = false;
    /** After a SIGTERM, which handlers do not learn of: no job is on its way any more. */
    private bool $isLeaving = false;

    public function __construct(private readonly Runner $runner)
    {
        $this->pid = getmypid();
        pcntl_signal(SIGTERM, $this->onSigterm(...));
        pcntl_signal(SIGURG, $this->onSigurg(...), false);
        // A terminal sends SIGINT to all processes; the first process passes it on as SIGTERM.
        pcntl_signal(SIGINT, SIG_IGN);
        pcntl_signal(SIGCHLD, SIG_DFL);
    }

    /**
     * Do jobs until there is a reason to end.
     *
     * @param list<\Closure> $starters what the program does first in each process
     * @return int the exit status
     */
    public function run(string $path, array $starters): int
    {
        $this->leave();
        foreach ($starters as $starter) {
            $starter();
        }
        $this->enter();
        $link = new Link($path);
        $hello = $link->hello();
        if ($hello === null || $hello['state'] === 'terminate') {
            return 0;
        }
        $this->link = $link;
        $this->maxFrame = $hello['max_frame'] ?? PHP_INT_MAX;
        $link->write($this->runner->ready(1));
        while (true) {
            pcntl_signal_dispatch();
            if ($this->next !== null) {
                $this->work($this->next);
                if ($this->link->isClosed) {
                    return 1;
                }
                continue;
            }
            if ($this->isStopping || $this->isLeaving || $this->link->isClosed) {
                return 0;
            }
            $this->read(self::IDLE_SECONDS);
        }
    }

    /** @param array<string, mixed> $frame */
    private function work(array $frame): void
    {
        $this->next = null;
        $this->cancelReason = $frame['cancelled'] ?? ($this->link->isClosed ? 'lost' : null);
        $answer = $this->runner->run($frame, $this);
        if (getmypid() !== $this->pid) {
            // The handler forked and returned in both processes: the job belongs to the first one.
            exit(0);
        }
        $this->cancelReason = null;
        $this->link->write($answer);
    }

    public function enter(): void
    {
        pcntl_async_signals(false);
        // The socket's warnings (a signal during a wait, a closed connection) are no news for the
        // program.
        set_error_handler(static fn (): bool => true);
    }

    public function leave(): void
    {
        restore_error_handler();
        pcntl_async_signals(true);
        pcntl_signal_dispatch();
        parent::leave();
    }

    public function send(string $frame): void
    {
        $this->link->write($frame);
    }

    public function poll(): void
    {
        $this->read(0.0);
    }

    protected function wait(float $seconds): void
    {
        $this->read($seconds);
        pcntl_signal_dispatch();
    }

    private function onSigterm(): void
    {
        if (getmypid() !== $this->pid || $this->link === null) {
            exit(0);
        }
        $this->link->write($this->runner->ready(0));
        $this->link->write(Json::encode(['type' => 'heartbeat', 'job_id' => self::NO_JOB]));
    }

    private function onSigurg(): void
    {
        if ($this->job !== null) {
            $this->poll();
            $this->job->interrupt();
        }
    }

    private function read(float $seconds): void
    {
        array_map($this->take(...), $this->link->lines($seconds));
        if ($this->link->isClosed) {
            $this->cancelReason ??= 'lost';
        }
    }

    private function take(string $line): void
    {
        try {
            $frame = Json::decode($line);
        } catch (\JsonException $error) {
            $this->refuse($line, $error);
            return;
        }
        match ($frame['type']) {
            'job' => $this->next = $frame,
            'cancel' => $this->takeCancel($frame['job_id'], $frame['reason']),
            'lifecycle' => $this->takeLifecycle($frame),
            'ping' => $this->link->write(Json::encode(['type' => 'pong', 'id' => $frame['id']])),
            'error' => $this->takeError($frame['code'], $frame['message'], $frame['job_id'] ?? 'none'),
            default => null,
        };
    }

    /**
     * A line that PHP cannot read, such as one with half a surrogate pair. If a job's id is in front,
     * the job fails. Beyond that nobody knows whose an `id` is.
     */
    private function refuse(string $line, \JsonException $error): void
    {
        if (preg_match('/^\{"type":"job","job_id":("(?:[^"\\\\]|\\\\.)*+")/', $line, $match) === 1) {
            $failure = new Discard($error->getMessage(), code: 'invalid_job', type: 'UnreadableJob');
            $this->link->write(Answer::fail(Json::decode($match[1]), $failure));
        }
        $this->runner->log->write('warning', 'PHP cannot read a frame of ' . strlen($line) . ' bytes from ojs-init');
    }

    private function takeCancel(string $id, string $reason): void
    {
        if ($this->job?->id === $id) {
            $this->cancelReason ??= $reason;
        } elseif ($this->next !== null && $this->next['job']['id'] === $id) {
            $this->next['cancelled'] = $reason;
        }
    }

    /** @param array<string, mixed> $frame */
    private function takeLifecycle(array $frame): void
    {
        if ($frame['state'] === 'terminate') {
            $this->isStopping = true;
            $this->stopsAt ??= isset($frame['remaining_ms']) ? self::now() + $frame['remaining_ms'] / 1000 : null;
        }
    }

    private function takeError(string $code, string $message, string $id): void
    {
        if ($id === self::NO_JOB) {
            $this->isLeaving = true;
            return;
        }
        if ($code !== 'not_offered' || !$this->isNotOffered) {
            $this->runner->log->write('warning', "ojs-init refuses a frame: $code (job: $id): $message");
        }
        $this->isNotOffered = $this->isNotOffered || $code === 'not_offered';
    }
}
