<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * A job's process: its pipe to the parent, which holds the connection to ojs-init.
 *
 * From the parent: "J" and a job frame, "C reason", "T milliseconds left", "W number" (that checkpoint is written),
 * "Q" (end). To it: "I" (ready for jobs), "P", "B" and "K number " with a progress, heartbeat, checkpoint frame, "A" and
 * an answer frame, "X" (stop the worker).
 *
 * @internal
 */
final class PipeChannel extends Channel
{
    private const WRITE_TIMEOUT = 10.0;

    /** @var list<string> */
    private array $jobs = [];
    private bool $isEnded = false;
    private bool $isPolling = false;
    private bool $isNews = false;
    private int $asked = 0;
    private int $written = 0;
    private readonly int $pid;
    /** What PHP warns of here is looked at here, and not to be told to an error handler of the program's. */
    private readonly \Closure $ignore;

    public function __construct(private readonly LineStream $lines)
    {
        $this->pid = getmypid();
        $this->ignore = static fn (): bool => true;
    }

    /** The next job frame; null: end. */
    public function nextJob(): ?string
    {
        $this->cancelReason = null;
        set_error_handler($this->ignore);
        try {
            while ($this->jobs === []) {
                if ($this->isEnded || $this->lines->isClosed()) {
                    return null;
                }
                $read = [$this->lines->stream];
                $none = null;
                stream_select($read, $none, $none, 60);
                $this->takeIn();
            }
        } finally {
            restore_error_handler();
        }
        return array_shift($this->jobs);
    }

    public function isOwnProcess(): bool
    {
        return getmypid() === $this->pid;
    }

    /** Of the process's own job: `isOwnProcess` was asked before. */
    public function answer(string $frame): void
    {
        $this->write('A' . $frame);
    }

    public function ready(): void
    {
        $this->write('I');
    }

    public function send(string $kind, string $frame): void
    {
        $this->refuseFork();
        $this->write(($kind === 'progress' ? 'P' : 'B') . $frame);
    }

    public function stop(): void
    {
        $this->refuseFork();
        $this->write('X');
    }

    public function checkpoint(string $frame): void
    {
        $this->refuseFork();
        $number = ++$this->asked;
        $this->write("K$number $frame");
        $this->waitUntil(fn (): bool => $this->written >= $number || $this->lines->isClosed(), self::WRITE_TIMEOUT);
        if ($this->written < $number) {
            throw $this->lines->isClosed()
                ? new ConnectionLost('the connection to ojs-init is closed')
                : new Stalled('ojs-init has not read for 10 seconds; the checkpoint is not with it yet');
        }
    }

    public function poll(): void
    {
        $this->refuseFork();
        set_error_handler($this->ignore);
        try {
            $this->takeIn();
        } finally {
            restore_error_handler();
        }
    }

    private function takeIn(): void
    {
        if ($this->isPolling) {
            // A signal in the midst of this very method.
            $this->isNews = true;
            return;
        }
        $this->isPolling = true;
        try {
            do {
                $this->isNews = false;
                foreach ($this->lines->read() as $line) {
                    $this->take($line);
                }
            } while ($this->isNews);
        } finally {
            $this->isPolling = false;
        }
        if ($this->lines->isClosed()) {
            $this->cancelReason ??= 'lost';
        }
    }

    private function take(string $line): void
    {
        $rest = substr($line, 1);
        switch ($line[0] ?? '') {
            case 'J':
                $this->jobs[] = $rest;
                break;
            case 'C':
                $this->cancelReason ??= ltrim($rest);
                break;
            case 'T':
                $this->isStopping = true;
                $this->stopsAt = trim($rest) === '' ? null : Clock::now() + (int) $rest / 1000;
                break;
            case 'W':
                $this->written = (int) $rest;
                break;
            case 'Q':
                $this->isEnded = true;
                break;
        }
    }

    public function wait(float $seconds): void
    {
        $read = [$this->lines->stream];
        $none = null;
        set_error_handler($this->ignore);
        try {
            stream_select($read, $none, $none, (int) $seconds, (int) (fmod($seconds, 1.0) * 1e6));
        } finally {
            restore_error_handler();
        }
    }

    private function refuseFork(): void
    {
        if (!$this->isOwnProcess()) {
            throw new ForkedProcess('a job belongs to the process in which its handler was started; this is a fork of it');
        }
    }

    private function write(string $line): void
    {
        set_error_handler($this->ignore);
        try {
            $this->lines->write($line . "\n");
            while ($this->lines->isFull() && !$this->lines->isClosed()) {
                $write = [$this->lines->stream];
                $none = null;
                if (stream_select($none, $write, $none, 60)) {
                    $this->lines->flush();
                    if ($this->lines->isFull() && feof($this->lines->stream)) {
                        return;
                    }
                }
            }
        } finally {
            restore_error_handler();
        }
    }
}
