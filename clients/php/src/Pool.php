<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function array_filter;
use function count;
use function fclose;
use function min;
use function pcntl_fork;
use function pcntl_get_last_error;
use function pcntl_strerror;
use function pcntl_waitpid;
use function pcntl_wexitstatus;
use function pcntl_wifexited;
use function stream_socket_pair;
use function usleep;

/**
 * The processes that do the jobs: as many as jobs at once, replaced when they die or have done enough.
 *
 * @internal
 */
final class Pool
{
    /** Most processes: PHP waits for 1024 descriptors at once. */
    public const MOST = 1000;
    private const YOUNG = 5.0;
    private const FIRST_PAUSE = 0.1;
    private const LONGEST_PAUSE = 5.0;

    /** @var array<int, ChildProcess> by pid */
    public array $children = [];
    private int $deaths = 0;
    private float $mayStartAt = 0.0;
    private bool $isEnding = false;
    private bool $isWarned = false;

    /** @param \Closure(LineStream): never $body what a process does */
    public function __construct(
        public readonly int $size,
        public readonly Limits $limits,
        private readonly Logger $log,
        private readonly \Closure $body,
    ) {
    }

    /** How many processes do jobs or are about to. */
    public function strength(): int
    {
        return count(array_filter($this->children, static fn (ChildProcess $c): bool => !$c->isLeaving));
    }

    /** Whether one is there that may have a job. */
    public function hasConnected(): bool
    {
        foreach ($this->children as $child) {
            if ($child->isConnected) {
                return true;
            }
        }
        return false;
    }

    /** No process is started any more, and the end of one is no news. */
    public function close(): void
    {
        $this->isEnding = true;
    }

    /** Start what is missing; let those go that have done enough, each once a successor is there. */
    public function tend(): void
    {
        if ($this->isEnding) {
            return;
        }
        while ($this->strength() < $this->size && Clock::now() >= $this->mayStartAt) {
            if (!$this->start()) {
                return;
            }
        }
        $this->recycle();
    }

    private function recycle(): void
    {
        $old = [];
        $ready = 0;
        foreach ($this->children as $child) {
            if ($child->isReady && !$child->isLeaving) {
                $ready++;
                $child->isOld = $child->isOld || $this->limits->over($child);
                if ($child->isOld) {
                    $old[] = $child;
                }
            }
        }
        foreach ($old as $child) {
            if ($ready > $this->size) {
                $child->leave();
                $ready--;
            } elseif (count($this->children) < min(2 * $this->size, self::MOST) && $this->strength() - $this->size < count($old)
                && Clock::now() >= $this->mayStartAt) {
                $this->start();
            }
        }
    }

    private function start(): bool
    {
        $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $pid = $pair === false ? -1 : pcntl_fork();
        if ($pid === 0) {
            fclose($pair[0]);
            foreach ($this->children as $child) {
                $child->lines->close();
            }
            $this->children = [];
            ($this->body)(new LineStream($pair[1]));
            exit(0);
        }
        if ($pid < 0) {
            $this->pause();
            $this->log->error('a process cannot be started: {why}; next in {seconds} s', [
                'why' => pcntl_strerror(pcntl_get_last_error()), 'seconds' => $this->mayStartAt - Clock::now(),
            ]);
            return false;
        }
        fclose($pair[1]);
        $this->children[$pid] = new ChildProcess($pid, new LineStream($pair[0]));
        return true;
    }

    private function pause(): void
    {
        $this->mayStartAt = Clock::now() + min(self::LONGEST_PAUSE, self::FIRST_PAUSE * 2 ** min(10, $this->deaths++));
    }

    /** It said that it is ready. */
    public function noteReady(ChildProcess $child): void
    {
        $child->isReady = true;
        if ($this->limits->maxMemory !== null && !$this->isWarned) {
            $memory = $child->memory();
            if ($memory !== null && $memory > $this->limits->maxMemory) {
                $this->isWarned = true;
                $this->log->warning(
                    'a process has {memory} bytes of memory before its first job, and maxMemory is {max}: '
                    . 'each will be replaced after 10 jobs',
                    ['memory' => $memory, 'max' => $this->limits->maxMemory],
                );
            }
        }
    }

    /** @return list<ChildProcess> those that have ended since the last call, each for `noteEnd` once its last words are heard */
    public function reap(): array
    {
        $ended = [];
        foreach ($this->children as $pid => $child) {
            if (pcntl_waitpid($pid, $status, WNOHANG) === $pid) {
                $child->status = $status;
                $ended[] = $child;
                unset($this->children[$pid]);
            }
        }
        return $ended;
    }

    public function noteEnd(ChildProcess $child): void
    {
        $isClean = pcntl_wifexited($child->status) && pcntl_wexitstatus($child->status) === 0;
        if ($child->isKilled || ($isClean && ($child->isLeaving || $this->isEnding))) {
            return;
        }
        $this->log->error('process {pid} {how}', ['pid' => $child->pid, 'how' => $child->ending()]);
        if ($child->isLeaving || $this->isEnding) {
            return;
        }
        // One that lived long is replaced at once; so is the first that died young.
        if ($child->age() >= self::YOUNG || $child->jobsDone > 0) {
            $this->deaths = 0;
        } elseif ($this->deaths === 0) {
            $this->deaths = 1;
        } else {
            $this->pause();
        }
    }

    /** Let all end, and kill after so many seconds who has not. */
    public function end(float $patience): void
    {
        $this->close();
        foreach ($this->children as $child) {
            $child->leave();
        }
        $until = Clock::now() + $patience;
        while ($this->children !== [] && Clock::now() < $until) {
            $this->reap();
            usleep($this->children === [] ? 0 : 1000);
        }
        foreach ($this->children as $child) {
            $child->kill();
        }
        foreach ($this->children as $pid => $child) {
            // The signal that tells of its end ends the wait for it, too.
            while (pcntl_waitpid($pid, $status) === -1 && pcntl_get_last_error() === PCNTL_EINTR) {
                continue;
            }
        }
        $this->children = [];
    }
}
