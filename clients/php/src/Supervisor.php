<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * The worker's first process: it holds the connection to ojs-init and gives the jobs to the processes of its pool. It
 * runs no handler, so it answers at once, whatever the handlers do.
 *
 * A connection for each process would spare each job two steps from process to process, most of what this library costs.
 * But PHP has no thread that could read it while a handler sleeps or computes: nobody would hear of the job's cancel, unless
 * the first process watched it as well, and to hand it over takes the extension sockets, which many installations lack.
 *
 * @internal
 */
final class Supervisor
{
    private const TICK = 0.1;
    private const CLOSED_GRACE = 1.0;
    private const END_PATIENCE = 0.3;

    private ?SocketLink $link = null;
    private Greeting $greeting;
    private Pool $pool;
    /** @var array<string, ?ChildProcess> the jobs that are held; null: no process has it yet */
    private array $held = [];
    /** @var array<string, string> job frames that wait for a process, by id */
    private array $waiting = [];
    public string $state = 'running';
    /** @var list<string> frames that came together with the hello */
    private array $early = [];
    private ?float $stopsAt = null;
    private ?int $announced = null;
    private bool $isStopAsked = false;
    private bool $isNotOffered = false;
    /** Whether idle processes are listened to as well, the next time. */
    private bool $isLookDue = true;

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
        $this->greeting = $hello;
        $this->state = $hello->state;
        if ($this->state === 'terminate') {
            return 0;
        }
        $this->pool = ($this->makePool)($hello);
        array_map($this->take(...), $this->early);
        $this->pool->tend();
        $next = 0.0;
        while (!$this->isOver()) {
            if ($this->signals->isTermAsked) {
                return $this->giveUp();
            }
            if ($this->link->lines->isClosed()) {
                return $this->lose();
            }
            $this->round(self::TICK);
            if (Clock::now() >= $next || $this->signals->isChildAsked) {
                $this->tick();
                $next = Clock::now() + self::TICK;
            }
        }
        $this->flush(5.0);
        $this->pool->end(self::CLOSED_GRACE);
        return 0;
    }

    private function isOver(): bool
    {
        return $this->held === [] && ($this->state === 'terminate' || $this->isStopAsked) && $this->link->isFlushed();
    }

    /** What a process of the pool has to close: it is not its own. */
    public function forget(): void
    {
        $this->link?->lines->close();
        $this->link = null;
    }

    public function maxFrame(): int
    {
        return $this->greeting->maxFrame;
    }

    public function stop(): void
    {
        if (!$this->isStopAsked) {
            $this->isStopAsked = true;
            if (isset($this->pool)) {
                $this->tellStopping(null);
                $this->announce();
            }
        }
    }

    private function awaitHello(): ?Greeting
    {
        while (true) {
            $lines = $this->link->lines->read();
            while (($line = array_shift($lines)) !== null) {
                $greeting = Greeting::from($line);
                if ($greeting !== null) {
                    $this->early = $lines;
                    return $greeting;
                }
            }
            if ($this->link->lines->isClosed()) {
                throw new ConnectionLost('ojs-init has closed the connection before its hello');
            }
            if ($this->signals->isTermAsked) {
                return null;
            }
            $this->select([$this->link->lines->stream], [], self::TICK);
        }
    }

    /**
     * @param array<int, resource> $read
     * @param array<int, resource> $write
     * @return array<int, resource> those that can be read, under the same keys
     */
    private function select(array $read, array $write, float $timeout): array
    {
        if (!$this->link->isFlushed()) {
            $write[] = $this->link->lines->stream;
        }
        $none = null;
        $isReady = stream_select($read, $write, $none, 0, (int) ($timeout * 1e6));
        return $isReady ? $read : [];
    }

    private function round(float $timeout): void
    {
        $this->link->flush();
        $read = [];
        $full = [];
        foreach ($this->pool->children as $pid => $child) {
            // An idle one has hardly ever something to say (its end comes as a signal), and each stream costs.
            if ($child->jobId !== null || !$child->isReady || $this->isLookDue) {
                $read[$pid] = $child->lines->stream;
            }
            if ($child->lines->isFull()) {
                $full[$pid] = $child->lines->stream;
            }
        }
        $this->isLookDue = false;
        // No process has the number 0.
        $read[0] = $this->link->lines->stream;
        $readable = $this->select($read, $full, $timeout);
        foreach ($full as $pid => $stream) {
            $this->pool->children[$pid]->lines->flush();
        }
        foreach ($readable as $pid => $stream) {
            if ($pid !== 0) {
                $this->hear($this->pool->children[$pid]);
                continue;
            }
            foreach ($this->link->lines->read() as $line) {
                $this->take($line);
            }
        }
        if ($this->waiting !== []) {
            $this->dispatch();
        }
        // The answers that came together go out together.
        $this->link->flush();
    }

    private function dispatch(): void
    {
        while ($this->waiting !== [] && ($child = $this->pool->idle()) !== null) {
            $id = (string) array_key_first($this->waiting);
            $this->held[$id] = $child;
            $child->give($id, $this->waiting[$id]);
            unset($this->waiting[$id]);
        }
    }

    private function hear(ChildProcess $child): void
    {
        foreach ($child->lines->read() as $line) {
            $rest = substr($line, 1);
            switch ($line[0] ?? '') {
                case 'A':
                    $child->jobsDone++;
                    $this->answer($child, $rest);
                    break;
                case 'P':
                case 'B':
                    $this->link->send($rest, $line[0] . $child->jobId);
                    // Before the answer comes, which takes the place of what waits.
                    $this->link->flush();
                    break;
                case 'K':
                    [$number, $frame] = explode(' ', $rest, 2);
                    $written = static fn () => $child->lines->write("W$number\n");
                    $this->link->send($frame, 'K' . $child->jobId, $written);
                    $this->link->flush();
                    break;
                case 'I':
                    $this->pool->noteReady($child);
                    $this->tellNewcomer($child);
                    $this->pool->tend();
                    $this->announce();
                    break;
                case 'X':
                    $this->stop();
                    break;
            }
        }
        if ($child->lines->isClosed()) {
            $this->signals->isChildAsked = true;
        }
    }

    private function answer(ChildProcess $child, string $frame): void
    {
        $id = $child->jobId;
        $child->jobId = null;
        $child->cancelReason = null;
        $child->killAt = null;
        if ($id === null) {
            return;
        }
        $this->link->drop('P' . $id);
        $this->link->drop('B' . $id);
        unset($this->held[$id]);
        $this->link->send($frame);
        if ($this->pool->limits->maxJobs !== null) {
            $this->pool->tend();
        }
    }

    private function tick(): void
    {
        $this->isLookDue = true;
        $this->signals->isChildAsked = false;
        foreach ($this->pool->children as $child) {
            $child->remind();
            if ($child->killAt !== null && Clock::now() >= $child->killAt && !$child->isKilled) {
                $this->runner->log->error('process {pid} is killed: its handler has not ended after a cancel ({reason})', [
                    'pid' => $child->pid, 'reason' => $child->cancelReason,
                ]);
                $child->kill();
            }
        }
        foreach ($this->pool->reap() as $child) {
            $this->hear($child);
            $child->lines->close();
            if ($child->jobId !== null) {
                $how = $child->isKilled ? 'was killed, since it went on after its cancel' : $child->ending();
                $this->answer($child, Answer::died($child->jobId, $child->cancelReason, $how)->frame);
            }
        }
        $this->pool->tend();
        $this->announce();
        $this->dispatch();
    }

    private function take(string $line): void
    {
        if (str_starts_with($line, '{"type":"ok",')) {
            // One for each answer, and nothing to do: not worth its decoding.
            return;
        }
        $frame = null;
        $fault = null;
        try {
            $frame = json_decode($line, true, 1024, JSON_THROW_ON_ERROR);
        } catch (\JsonException $unreadable) {
            $fault = $unreadable;
        }
        if (!is_array($frame)) {
            $this->takeUnreadable($line, $fault);
            return;
        }
        $id = is_string($frame['job_id'] ?? null) ? $frame['job_id'] : null;
        switch ($frame['type'] ?? null) {
            case 'job':
                $this->takeJob($frame, $line);
                break;
            case 'ping':
                $this->link->send(Frame::of('pong', ['id' => $frame['id'] ?? 0]));
                break;
            case 'cancel':
                $this->cancel((string) $id, $frame['reason'] ?? null, $frame['grace_ms'] ?? null);
                break;
            case 'lifecycle':
                $this->takeLifecycle($frame);
                break;
            case 'error':
                $this->takeError($frame, $id);
                break;
        }
    }

    private function takeUnreadable(string $line, ?\JsonException $fault): void
    {
        $id = $fault === null ? null : Json::salvageJobId($line);
        if ($id !== null) {
            $this->link->send(Answer::unreadable($id, $fault)->frame);
        }
        $this->runner->log->warning('a frame from ojs-init cannot be read ({size} bytes)', ['size' => strlen($line)]);
    }

    /** @param array<string, mixed> $frame */
    private function takeJob(array $frame, string $line): void
    {
        $id = $frame['job']['id'] ?? null;
        if (!is_string($id)) {
            $this->runner->log->warning('a job without an id is ignored');
            return;
        }
        if (!is_string($frame['job']['type'] ?? null)) {
            $this->link->send(Answer::withoutType($id)->frame);
            return;
        }
        if (array_key_exists($id, $this->held)) {
            $this->runner->log->warning('job {id} is held already; its new delivery is ignored', ['id' => $id]);
            return;
        }
        $this->held[$id] = null;
        $this->waiting[$id] = $line;
        // At once: the next line may be its cancel.
        $this->dispatch();
    }

    private function cancel(string $id, mixed $reason, mixed $graceMs): void
    {
        if (!array_key_exists($id, $this->held)) {
            return;
        }
        $reason = is_string($reason) && $reason !== '' ? Text::line($reason, 200) : 'shutdown';
        $child = $this->held[$id];
        if ($child !== null) {
            $grace = is_numeric($graceMs) ? max(0.0, $graceMs / 1000) : 30.0;
            // A hung handler costs its own process only. At the end of a shutdown ojs-init decides.
            $child->cancel($reason, in_array($reason, ['timeout', 'cancelled', 'lost'], true) ? $grace * 0.8 : null);
            return;
        }
        unset($this->held[$id], $this->waiting[$id]);
        $this->link->send($reason === 'timeout'
            ? Answer::died($id, 'timeout', 'had not begun it')->frame
            : Frame::about('release', $id, ['reason' => $reason]));
    }

    /** @param array<string, mixed> $frame */
    private function takeLifecycle(array $frame): void
    {
        $state = $frame['state'] ?? null;
        if ($this->state === 'terminate' || !in_array($state, ['running', 'quiet', 'terminate'], true)) {
            return;
        }
        $this->state = $state;
        if ($state === 'terminate') {
            $left = $frame['remaining_ms'] ?? null;
            $this->tellStopping(is_numeric($left) ? (int) $left : null);
        }
    }

    private function tellStopping(?int $remainingMs): void
    {
        $this->stopsAt = $remainingMs === null ? null : Clock::now() + $remainingMs / 1000;
        foreach ($this->pool->children as $child) {
            $this->tellNewcomer($child);
        }
    }

    private function tellNewcomer(ChildProcess $child): void
    {
        if ($this->state === 'terminate' || $this->isStopAsked) {
            $left = $this->stopsAt === null ? '' : ' ' . max(0, (int) (($this->stopsAt - Clock::now()) * 1000));
            $child->lines->write("T$left\n");
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

    /** Say how many jobs are wanted, when that has changed. */
    private function announce(): void
    {
        $wanted = $this->isStopAsked ? 0 : min($this->pool->size, $this->pool->strength());
        $isFirst = $this->announced === null && !$this->isStopAsked;
        if ($wanted === $this->announced || $this->state === 'terminate' || ($isFirst && !$this->pool->isComplete())) {
            return;
        }
        $ready = [
            'protocol' => 1, 'concurrency' => $wanted, 'types' => $this->runner->types(), 'ping' => true, 'ok' => false,
            'client' => 'ojs-worker-php ' . Worker::VERSION,
        ];
        $frame = Frame::of('ready', $ready);
        if (strlen($frame) > $this->greeting->maxFrame) {
            $this->pool->end(self::END_PATIENCE);
            throw new ProtocolError('the names of the job types do not fit into a frame: ' . strlen($frame)
                . " bytes, at most {$this->greeting->maxFrame}; register fewer, or \"*\"");
        }
        $this->announced = $wanted;
        $this->link->send($frame);
    }

    /** SIGTERM: the time is over. */
    private function giveUp(): int
    {
        foreach ($this->held as $id => $child) {
            $this->cancel((string) $id, 'shutdown', null);
        }
        $this->awaitAnswers($this->stopGrace ?? INF);
        $isLeft = $this->held !== [];
        $this->flush(0.2);
        $this->pool->end($isLeft ? 0.0 : self::END_PATIENCE);
        return $isLeft ? 143 : 0;
    }

    private function awaitAnswers(float $seconds): void
    {
        $until = Clock::now() + $seconds;
        while ($this->held !== [] && Clock::now() < $until && !$this->link->lines->isClosed()) {
            $this->round(min(0.05, max(0.0, $until - Clock::now())));
            if (Clock::now() < $until) {
                $this->tick();
            }
        }
    }

    /** The connection is closed: nobody takes answers any more. */
    private function lose(): never
    {
        foreach ($this->held as $child) {
            $child?->cancel('lost', null);
        }
        $until = Clock::now() + self::CLOSED_GRACE;
        $this->pool->end($this->held === [] ? self::END_PATIENCE : max(0.0, $until - Clock::now()));
        throw new ConnectionLost('ojs-init has closed the connection');
    }

    private function flush(float $seconds): void
    {
        $until = Clock::now() + $seconds;
        $this->link->flush();
        while (!$this->link->isFlushed() && Clock::now() < $until && !$this->link->lines->isClosed()) {
            $this->select([$this->link->lines->stream], [], 0.02);
            $this->link->flush();
            $this->link->lines->read();
        }
    }
}
