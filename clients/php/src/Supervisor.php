<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function array_map;
use function in_array;
use function is_array;
use function is_string;
use function json_decode;
use function max;
use function min;
use function stream_select;
use function strlen;
use function substr;
use function usleep;

/**
 * The worker's first process: it runs no handler, and keeps as many processes at work as jobs may run at once. Each of those
 * has its own connection to ojs-init. The one of this process is never ready for jobs: it brings the number of jobs, the state, and the
 * end of ojs-init.
 *
 * @internal
 */
final class Supervisor
{
    /** Seconds between two looks, should a signal about a process be lost; and while something hangs on the time. */
    private const TICK = 0.25;
    private const SHORT_TICK = 0.1;
    private const CLOSED_GRACE = 1.0;
    private const END_PATIENCE = 0.3;

    private ?SocketLink $link = null;
    private Pool $pool;
    public string $state = 'running';
    /** @var list<string> frames that came together with the hello */
    private array $early = [];
    private bool $isStopAsked = false;
    private bool $isStopTold = false;
    private bool $isNotOffered = false;

    /** @param \Closure(Greeting): Pool $makePool */
    public function __construct(
        private readonly Runner $runner,
        private readonly Signals $signals,
        private readonly ?float $stopGrace,
        private readonly \Closure $makePool,
    ) {
    }

    /** @return int the status with which the program shall end */
    public function run(string $path): int
    {
        $this->link = new SocketLink($path);
        $hello = $this->awaitHello();
        if ($hello === null) {
            return 0;
        }
        $this->state = $hello->state;
        if ($this->state === 'terminate') {
            return 0;
        }
        $this->checkReady($hello->maxFrame);
        $this->pool = ($this->makePool)($hello);
        array_map($this->take(...), $this->early);
        while (!$this->isOver()) {
            if ($this->signals->isTermAsked) {
                return $this->giveUp();
            }
            if ($this->link->lines->isClosed) {
                return $this->lose();
            }
            $this->tellStop();
            $this->pool->tend();
            $this->round($this->pool->limits->areLookedAt() ? self::SHORT_TICK : self::TICK);
        }
        $this->pool->end(self::CLOSED_GRACE);
        return 0;
    }

    /** Whether whoever may have a job has ended, and no process is wanted any more. */
    private function isOver(): bool
    {
        if ($this->state !== 'terminate' && !$this->isStopTold) {
            return false;
        }
        array_map($this->hear(...), $this->pool->children);
        return !$this->pool->hasConnected();
    }

    /** What a process of the pool has to close: it is not its own. */
    public function forget(): void
    {
        $this->link?->lines->close();
        $this->link = null;
    }

    /** Also from the handler of a signal. */
    public function stop(): void
    {
        $this->isStopAsked = true;
    }

    private function tellStop(): void
    {
        if ($this->isStopAsked && !$this->isStopTold) {
            $this->isStopTold = true;
            $this->pool->close();
            foreach ($this->pool->children as $child) {
                $child->leave('H');
            }
        }
    }

    private function awaitHello(): ?Greeting
    {
        while (true) {
            $this->early = $this->link->lines->read();
            $hello = Greeting::among($this->early);
            if ($hello !== null) {
                return $hello;
            }
            if ($this->link->lines->isClosed) {
                throw new ConnectionLost('ojs-init has closed the connection before its hello');
            }
            if ($this->signals->isTermAsked) {
                return null;
            }
            $read = [$this->link->lines->stream];
            $none = null;
            stream_select($read, $none, $none, 0, (int) (self::SHORT_TICK * 1e6));
        }
    }

    /** @throws ProtocolError */
    private function checkReady(int $maxFrame): void
    {
        $size = strlen(ProcessChannel::readyFrame($this->runner->types(), 1));
        if ($size > $maxFrame) {
            throw new ProtocolError("the names of the job types do not fit into a frame: $size"
                . " bytes, at most $maxFrame; register fewer, or \"*\"");
        }
    }

    /** Wait until somebody says something, and do what that asks for. */
    private function round(float $timeout): void
    {
        // No process has the number 0. A stream at its end would end each wait.
        $read = $this->link->lines->isClosed ? [] : [$this->link->lines->stream];
        $full = $this->link->isFlushed() ? [] : [$this->link->lines->stream];
        foreach ($this->pool->children as $pid => $child) {
            if (!$child->lines->isClosed) {
                $read[$pid] = $child->lines->stream;
            }
        }
        if ($read === []) {
            usleep((int) ($timeout * 1e6));
        }
        $none = null;
        $isSaid = $read !== [] && $timeout > 0 && stream_select($read, $full, $none, 0, (int) ($timeout * 1e6));
        if ($isSaid && isset($read[0])) {
            array_map($this->take(...), $this->link->lines->read());
        }
        $this->link->flush();
        foreach ($isSaid ? $read : [] as $pid => $stream) {
            if ($pid !== 0) {
                $this->hear($this->pool->children[$pid]);
            }
        }
        foreach ($this->pool->children as $child) {
            $child->remind();
        }
        $this->reap();
    }

    private function reap(): void
    {
        $ended = $this->pool->reap();
        if ($ended !== []) {
            // One that ended because of that must not be taken for a dead one.
            array_map($this->take(...), $this->link->lines->read());
        }
        foreach ($ended as $child) {
            $this->hear($child);
            $child->lines->close();
            if (!$this->link->lines->isClosed) {
                $this->pool->noteEnd($child);
            }
        }
    }

    private function hear(ChildProcess $child): void
    {
        foreach ($child->lines->read() as $word) {
            $rest = substr($word, 1);
            switch ($word[0] ?? '') {
                case 'D':
                    $child->jobsDone = (int) $rest;
                    break;
                case 'C':
                    $child->isConnected = true;
                    break;
                case 'I':
                    $this->pool->noteReady($child);
                    break;
                case 'T':
                    $this->takeState('terminate');
                    break;
                case 'E':
                    $this->take($rest);
                    break;
                case 'U':
                    $this->runner->log->warning('a frame from ojs-init cannot be read ({size} bytes)', ['size' => (int) $rest]);
                    break;
                case 'X':
                    $this->stop();
                    break;
            }
        }
    }

    private function take(string $line): void
    {
        $frame = json_decode($line, true);
        switch (is_array($frame) ? $frame['type'] ?? null : null) {
            case 'ping':
                $this->link->send(Frame::of('pong', ['id' => $frame['id'] ?? 0]));
                break;
            case 'lifecycle':
                $this->takeState($frame['state'] ?? null);
                break;
            case 'error':
                $this->takeError($frame, is_string($frame['job_id'] ?? null) ? $frame['job_id'] : null);
                break;
        }
    }

    private function takeState(mixed $state): void
    {
        if ($this->state !== 'terminate' && in_array($state, ['running', 'quiet', 'terminate'], true)) {
            $this->state = $state;
            if ($state === 'terminate') {
                $this->pool->close();
            }
        }
    }

    /** @param array<string, mixed> $frame */
    private function takeError(array $frame, ?string $id): void
    {
        $code = is_string($frame['code'] ?? null) ? $frame['code'] : 'unknown';
        $message = is_string($frame['message'] ?? null) ? Text::line($frame['message']) : '';
        if ($code === 'unsupported_protocol') {
            $this->pool->end(self::END_PATIENCE);
            throw new ProtocolError("ojs-init does not speak protocol 1: $message");
        }
        if ($code === 'not_offered') {
            if ($this->isNotOffered) {
                return;
            }
            $this->isNotOffered = true;
        }
        $isOurs = in_array($code, ['not_json', 'invalid_frame', 'frame_too_long'], true);
        $this->runner->log->log($isOurs ? 'error' : 'warning', 'ojs-init says {code}{about}: {message}', [
            'code' => Text::line($code, 100), 'message' => $message,
            'about' => $id === null ? '' : ' about job ' . Text::line($id, 200),
        ]);
    }

    /** SIGTERM, while jobs are held: ojs-init gives up on the process. */
    private function giveUp(): int
    {
        $isLeft = !$this->cut('S', max(self::END_PATIENCE, $this->stopGrace ?? INF));
        if ($isLeft && $this->link->lines->isClosed) {
            return $this->lose();
        }
        $this->pool->end($isLeft ? 0.0 : self::END_PATIENCE);
        return $isLeft ? 143 : 0;
    }

    /** The connection is closed: nobody takes answers any more. */
    private function lose(): never
    {
        $this->cut('L', self::CLOSED_GRACE);
        $this->pool->end(0.0);
        throw new ConnectionLost('ojs-init has closed the connection');
    }

    /** Have all jobs cancelled. Whether all processes that might have one have ended by themselves. */
    private function cut(string $word, float $seconds): bool
    {
        $this->pool->close();
        foreach ($this->pool->children as $child) {
            $this->hear($child);
            $child->cut($word);
        }
        $until = Clock::now() + $seconds;
        $wasClosed = $this->link->lines->isClosed;
        while ($this->pool->hasConnected() && Clock::now() < $until && $this->link->lines->isClosed === $wasClosed) {
            $this->round(min(0.05, max(0.0, $until - Clock::now())));
        }
        return !$this->pool->hasConnected();
    }
}
