<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function array_key_first;
use function array_keys;
use function array_map;
use function getmypid;
use function in_array;
use function is_array;
use function is_numeric;
use function is_string;
use function min;
use function restore_error_handler;
use function set_error_handler;
use function stream_select;
use function strlen;

/**
 * What a process that does jobs hears and says: its own connection to ojs-init, and its pipe to the first process.
 *
 * Nobody reads the connection while a handler runs. So ojs-init is asked to send SIGURG with each cancel (`cancel_signal` in
 * `ready`): it ends a sleep, and its handler reads what has come.
 *
 * Words from the first process: "Q" (take no more jobs, and end), "H" (the same, since the worker is to stop), "S" (the same at once:
 * the job is cancelled), "L" (ojs-init is gone). To it: "C" (connected: it may have a job from now on), "I" (it is ready for jobs),
 * "D number" (jobs done, when that number matters), "T" (told to terminate), "E" and an error frame of ojs-init's, "U" and the size
 * of a frame that cannot be read, "X" (stop the worker). Each may be said twice.
 *
 * @internal
 */
final class ProcessChannel extends Channel
{
    private const WRITE_TIMEOUT = 10.0;
    /** Seconds that ojs-init has to say that no job is on its way, once we take no more; and in a hurry. */
    private const SETTLE_TIME = 2.0;
    private const HURRIED_SETTLE_TIME = 0.2;
    /** Nobody has it, so ojs-init answers what is said about it: behind the last job that it has sent us. */
    private const NOBODYS_JOB = 'ojs-worker-nobody';
    /** Seconds that a handler has after its cancel before a SIGTERM ends its process. */
    private const TERM_LEEWAY = 0.5;

    private SocketLink $link;
    /** @var array<string, array<string, mixed>> job frames that have come and are not begun, by id */
    private array $jobs = [];
    private ?string $jobId = null;
    private ?float $cancelledAt = null;
    private int $jobsDone = 0;
    private bool $isTerminating = false;
    private bool $isLeaving = false;
    private bool $isHurried = false;
    private ?float $settledAt = null;
    private bool $isTakingIn = false;
    private bool $isNews = false;
    private readonly int $pid;
    /** What PHP warns of here is looked at here, and not to be told to an error handler of the program's. */
    private readonly \Closure $ignore;

    /** @param ?list<string> $types those that are taken; null: every type */
    public function __construct(
        private readonly LineStream $parent,
        private readonly Limits $limits,
        private readonly ?array $types,
    ) {
        $this->pid = getmypid();
        $this->ignore = static fn (): bool => true;
    }

    /** @param ?list<string> $types */
    public static function readyFrame(?array $types, int $concurrency): string
    {
        return Frame::of('ready', [
            'protocol' => 1, 'concurrency' => $concurrency, 'types' => $types, 'ok' => false, 'cancel_signal' => true,
            'client' => 'ojs-worker-php ' . Worker::VERSION,
        ]);
    }

    /**
     * Greet ojs-init, and be ready for jobs. False: there is nothing to be done here any more.
     *
     * @throws NotUnderOjsInit
     * @throws ProtocolError
     */
    public function connect(string $path): bool
    {
        $this->link = new SocketLink($path);
        return $this->quietly(function (): bool {
            $hello = $this->awaitHello();
            if ($hello === null) {
                return false;
            }
            if ($hello->state === 'terminate') {
                $this->isTerminating = true;
                $this->tell('T');
                return false;
            }
            $this->maxFrame = $hello->maxFrame;
            $this->state = $hello->state;
            array_map($this->obey(...), $this->parent->read());
            if ($this->isLeaving || $this->isHurried) {
                return false;
            }
            // The first process knows of whoever may have a job, and lets no other one go before ojs-init knows of this one.
            $this->tell('C');
            $this->link->send(self::readyFrame($this->types, 1));
            $this->writeUntil(INF);
            $this->tell('I');
            return true;
        });
    }

    private function awaitHello(): ?Greeting
    {
        while (!$this->link->lines->isClosed && !$this->isLeaving && !$this->isHurried && !$this->parent->isClosed) {
            $this->select(self::LONGEST_WAIT);
            $lines = $this->link->lines->read();
            $hello = Greeting::among($lines);
            if ($hello !== null) {
                array_map($this->take(...), $lines);
                return $hello;
            }
            array_map($this->obey(...), $this->parent->read());
        }
        return null;
    }

    /**
     * Give the answer to the job before, and wait for the next job frame; null: end.
     *
     * The answer is that of the process's own job: `isOwnProcess` was asked before.
     *
     * @return ?array<string, mixed>
     */
    public function nextJob(?string $answer = null): ?array
    {
        set_error_handler($this->ignore);
        try {
            if ($answer !== null) {
                $this->answer($answer);
            }
            $this->cancelReason = null;
            $this->cancelledAt = null;
            while (($frame = $this->begin()) === null) {
                if ($this->mayEnd()) {
                    return null;
                }
                if (!$this->link->isFlushed()) {
                    $this->link->flush();
                }
                if ($this->parent->isFull()) {
                    $this->parent->flush();
                }
                $readable = $this->select($this->patience());
                if ($readable !== []) {
                    // After a signal nobody knows yet where something is to be read: a word may be there beside a job.
                    $this->takeIn(isset($readable['parent']));
                }
            }
        } finally {
            restore_error_handler();
        }
        return $frame;
    }

    /**
     * Of the jobs that have come the next one, which runs from now on; null: there is none to be begun.
     *
     * @return ?array<string, mixed>
     */
    private function begin(): ?array
    {
        if ($this->isHurried || $this->link->lines->isClosed) {
            foreach (array_keys($this->jobs) as $id) {
                $this->link->send(Frame::about('release', (string) $id, ['reason' => 'shutdown']));
            }
            $this->jobs = [];
        }
        $id = array_key_first($this->jobs);
        if ($id === null) {
            return null;
        }
        $frame = $this->jobs[$id];
        $this->jobId = (string) $id;
        unset($this->jobs[$id]);
        if ($this->isHurried) {
            // A SIGTERM in the midst of this very method.
            $this->cancel('shutdown');
        }
        return $frame;
    }

    /** How this process ends once there is no next job. */
    public function status(): int
    {
        return $this->link->lines->isClosed && !$this->isTerminating ? 1 : 0;
    }

    private function mayEnd(): bool
    {
        if ($this->isTerminating) {
            $this->tell('T');
            return $this->link->isFlushed() || $this->link->lines->isClosed;
        }
        if ($this->link->lines->isClosed) {
            return true;
        }
        if (!$this->isLeaving && !$this->isHurried && !$this->parent->isClosed) {
            return false;
        }
        $settle = $this->isLeaving && !$this->isHurried ? self::SETTLE_TIME : self::HURRIED_SETTLE_TIME;
        if ($this->settledAt === null) {
            $this->link->send(self::readyFrame($this->types, 0));
            if (!$this->isHurried) {
                $this->link->send(Frame::about('heartbeat', self::NOBODYS_JOB));
            }
            $this->link->flush();
            $this->settledAt = INF;
        }
        $this->settledAt = min($this->settledAt, Clock::now() + $settle);
        return $this->link->isFlushed() && Clock::now() >= $this->settledAt;
    }

    private function patience(): float
    {
        if ($this->settledAt === null) {
            return self::LONGEST_WAIT;
        }
        $left = $this->settledAt - Clock::now();
        // When that is over there is only to be written, and room for it ends the wait.
        return $left > 0 ? min(self::LONGEST_WAIT, $left) : self::LONGEST_WAIT;
    }

    public function isOwnProcess(): bool
    {
        return getmypid() === $this->pid;
    }

    /** Returns when the kernel has it, or the connection is closed. */
    private function answer(string $frame): void
    {
        $this->link->answer($frame);
        $this->jobId = null;
        $this->cancelledAt = null;
        $this->jobsDone++;
        $this->writeUntil(INF);
        if ($this->limits->isTold($this->jobsDone)) {
            $this->tell("D{$this->jobsDone}");
        }
    }

    public function send(string $kind, string $frame): void
    {
        $this->refuseFork();
        $this->link->send($frame, $kind);
        $this->quietly($this->link->flush(...));
    }

    public function checkpoint(string $frame): void
    {
        $this->refuseFork();
        $this->link->send($frame, 'checkpoint');
        $this->quietly(fn () => $this->writeUntil(Clock::now() + self::WRITE_TIMEOUT));
        if (!$this->link->isFlushed()) {
            throw $this->link->lines->isClosed
                ? new ConnectionLost('the connection to ojs-init is closed')
                : new Stalled('ojs-init has not read for 10 seconds; the checkpoint is not with it yet');
        }
    }

    private function writeUntil(float $end): void
    {
        $this->link->flush();
        while (!$this->link->isFlushed() && !$this->link->lines->isClosed && Clock::now() < $end) {
            // It is read meanwhile: ojs-init waits with its reading for who leaves too much of it unread.
            $this->select(min(self::LONGEST_WAIT, $end - Clock::now()));
            $this->link->flush();
            $this->takeIn();
        }
    }

    public function stop(): void
    {
        $this->refuseFork();
        $this->tell('X');
    }

    public function poll(): void
    {
        $this->refuseFork();
        // Between two jobs what has come is left to the wait for it, which ends by that.
        if ($this->jobId !== null) {
            $this->quietly(fn () => $this->takeIn());
        }
    }

    public function wait(float $seconds): void
    {
        $this->quietly(fn () => $this->select($seconds));
    }

    /** SIGTERM for this process alone: ojs-init's, for one whose handler outlived its cancel, or whose first process has ended. */
    public function term(): void
    {
        $isOutlived = $this->cancelledAt !== null && Clock::now() >= $this->cancelledAt + self::TERM_LEEWAY;
        if ($isOutlived && in_array($this->cancelReason, ['timeout', 'lost'], true)) {
            exit(143);
        }
        $this->hurry();
    }

    private function hurry(): void
    {
        $this->isHurried = true;
        $this->cancel('shutdown');
    }

    private function cancel(string $reason): void
    {
        if ($this->jobId !== null && $this->cancelReason === null) {
            $this->cancelledAt = Clock::now();
            $this->cancelReason = $reason;
        }
    }

    private function tell(string $word): void
    {
        $this->quietly(fn () => $this->parent->write($word . "\n"));
    }

    /** @return array<string, resource> what can be read */
    private function select(float $seconds): array
    {
        $read = ['link' => $this->link->lines->stream];
        if (!$this->parent->isClosed) {
            $read['parent'] = $this->parent->stream;
        }
        $write = $this->link->isFlushed() ? null : [$this->link->lines->stream];
        $none = null;
        $whole = (int) $seconds;
        $isReady = stream_select($read, $write, $none, $whole, (int) (($seconds - $whole) * 1e6));
        return $isReady ? $read : [];
    }

    private function takeIn(bool $isParentDue = true): void
    {
        if ($this->isTakingIn) {
            // A signal in the midst of this very method.
            $this->isNews = true;
            return;
        }
        $this->isTakingIn = true;
        try {
            do {
                $this->isNews = false;
                foreach ($this->link->lines->read() as $line) {
                    $this->take($line);
                }
                if ($isParentDue) {
                    array_map($this->obey(...), $this->parent->read());
                }
            } while ($this->isNews);
        } finally {
            $this->isTakingIn = false;
        }
        if ($this->link->lines->isClosed) {
            $this->cancel('lost');
        }
    }

    private function obey(string $word): void
    {
        switch ($word) {
            case 'Q':
                $this->isLeaving = true;
                break;
            case 'H':
                $this->isLeaving = true;
                $this->isStopping = true;
                break;
            case 'S':
                $this->hurry();
                break;
            case 'L':
                $this->cancel('lost');
                $this->isHurried = true;
                break;
        }
    }

    private function take(string $line): void
    {
        try {
            $frame = Json::decode($line);
        } catch (\JsonException $unreadable) {
            $id = Json::salvageJobId($line);
            if ($id !== null) {
                $this->link->send(Answer::unreadable($id, $unreadable)->frame);
            }
            $this->tell('U' . strlen($line));
            return;
        }
        $type = is_array($frame) ? $frame['type'] ?? null : null;
        if ($type === 'job') {
            $this->takeJob($frame);
            return;
        }
        $id = is_string($frame['job_id'] ?? null) ? $frame['job_id'] : null;
        switch ($type) {
            case 'cancel':
                $this->takeCancel((string) $id, $frame['reason'] ?? null);
                break;
            case 'lifecycle':
                $this->takeLifecycle($frame);
                break;
            case 'ping':
                $this->link->send(Frame::of('pong', ['id' => $frame['id'] ?? 0]));
                break;
            case 'error':
                if ($id === self::NOBODYS_JOB) {
                    $this->settledAt = 0.0;
                } else {
                    $this->tell('E' . $line);
                }
                break;
        }
    }

    /** @param array<string, mixed> $frame */
    private function takeJob(array $frame): void
    {
        $id = $frame['job']['id'] ?? null;
        if (!is_string($id)) {
            $this->tell('U0');
            return;
        }
        if (!is_string($frame['job']['type'] ?? null)) {
            $this->link->send(Answer::withoutType($id)->frame);
        } elseif ($this->isHurried) {
            // It was on its way as we were told to end.
            $this->link->send(Frame::about('release', $id, ['reason' => 'shutdown']));
        } elseif ($id !== $this->jobId) {
            $this->jobs[$id] ??= $frame;
        }
    }

    private function takeCancel(string $id, mixed $reason): void
    {
        $reason = is_string($reason) && $reason !== '' ? Text::line($reason, 200) : 'shutdown';
        if ($id === $this->jobId) {
            $this->cancel($reason);
            return;
        }
        if (isset($this->jobs[$id])) {
            unset($this->jobs[$id]);
            $this->link->send($reason === 'timeout'
                ? Answer::notBegun($id)->frame
                : Frame::about('release', $id, ['reason' => $reason]));
        }
    }

    /** @param array<string, mixed> $frame */
    private function takeLifecycle(array $frame): void
    {
        $state = $frame['state'] ?? null;
        if (!$this->isTerminating && in_array($state, ['running', 'quiet', 'terminate'], true)) {
            $this->state = $state;
        }
        if ($state === 'terminate') {
            $left = $frame['remaining_ms'] ?? null;
            $this->isTerminating = true;
            $this->isStopping = true;
            $this->stopsAt = is_numeric($left) ? Clock::now() + $left / 1000 : null;
        }
    }

    private function refuseFork(): void
    {
        if (!$this->isOwnProcess()) {
            throw new ForkedProcess('a job belongs to the process in which its handler was started; this is a fork of it');
        }
    }

    private function quietly(\Closure $call): mixed
    {
        set_error_handler($this->ignore);
        try {
            return $call();
        } finally {
            restore_error_handler();
        }
    }
}
