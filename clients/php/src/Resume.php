<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * Where a job was when it was given up: its finished steps, the positions of its rows, and the program's own state.
 *
 * @internal
 */
final class Resume
{
    /** What is kept of a job, as bytes of JSON. */
    public const MAX_BYTES = 65_536;
    private const SAVE_EVERY = 5.0;
    private const LEAST_REMAINING = 0.25;
    private const LAST_ROWS = 10;

    /** @var array<string, float> seconds that each step took the last time in this process */
    private static array $durations = [];

    /** @var list<array{string, mixed}> */
    private array $steps = [];
    /** @var array<string, mixed> by the name of the step, "" outside of steps */
    private array $cursors = [];
    private mixed $state = null;
    /** How many of the steps have come in this attempt. */
    private int $reached = 0;
    /** @var array<string, true> */
    private array $names = [];
    private string $current = '';

    public function __construct(private readonly Job $job, mixed $checkpoint)
    {
        if (!is_array($checkpoint) || ($checkpoint['ojs_resume'] ?? null) !== 1) {
            $this->state = $checkpoint;
            return;
        }
        foreach (is_array($checkpoint['steps'] ?? null) ? $checkpoint['steps'] : [] as $step) {
            if (is_array($step) && is_string($step[0] ?? null)) {
                $this->steps[] = [$step[0], $step[1] ?? null];
            }
        }
        $this->cursors = is_array($checkpoint['cursors'] ?? null) ? $checkpoint['cursors'] : [];
        $this->state = $checkpoint['state'] ?? null;
    }

    public function userState(): mixed
    {
        return $this->state;
    }

    public function setUserState(mixed $state): void
    {
        $this->state = $state;
    }

    /** What is saved: the program's state alone, as long as it has neither steps nor rows. */
    public function form(): mixed
    {
        if ($this->steps === [] && $this->cursors === []) {
            return $this->state;
        }
        $form = [
            'ojs_resume' => 1, 'steps' => $this->steps, 'cursors' => (object) $this->cursors, 'state' => $this->state,
        ];
        try {
            $size = strlen(Json::encode($form));
        } catch (\Throwable $unfit) {
            throw new Discard(
                'what is to be kept of the job is not JSON: ' . Text::clean($unfit->getMessage(), 500),
                type: 'InvalidCheckpoint',
            );
        }
        if ($size > self::MAX_BYTES) {
            throw new CheckpointTooLarge(
                "the steps, positions and state of this job are $size bytes of JSON; at most " . self::MAX_BYTES
                . ' are kept: keep results of steps small, for instance as the name of a file'
            );
        }
        return $form;
    }

    /** @param array<mixed> $args */
    public function step(string $name, callable $function, array $args): mixed
    {
        if ($name === '' || isset($this->names[$name])) {
            throw new StepsChanged($name === '' ? 'a step has a name'
                : "there are two steps with the name $name in this job; each has a name of its own");
        }
        if ($this->current !== '') {
            throw new \LogicException("the step $name is within the step {$this->current}; steps follow each other");
        }
        $this->names[$name] = true;
        $at = $this->reached++;
        if ($at < count($this->steps)) {
            if ($this->steps[$at][0] !== $name) {
                throw new StepsChanged('the steps of this job have changed: finished are '
                    . implode(', ', array_column($this->steps, 0)) . '; now come '
                    . implode(', ', array_map(strval(...), array_keys($this->names))));
            }
            return $this->steps[$at][1];
        }
        $this->stopIfTime(self::$durations[$this->job->type . "\0" . $name] ?? 0.0, false);
        $this->current = $name;
        $start = Clock::now();
        try {
            $result = $function(...$args);
        } finally {
            $this->current = '';
        }
        self::$durations[$this->job->type . "\0" . $name] = Clock::now() - $start;
        unset($this->cursors[$name]);
        $this->steps[] = [$name, $result];
        $this->job->saveCheckpoint($this->form());
        // As the next attempt would see it.
        return $result === null || is_scalar($result) ? $result : Json::decode(Json::encode($result));
    }

    public function iterate(iterable|callable $rows, ?callable $key): \Generator
    {
        $cursor = $this->current;
        $position = $this->cursors[$cursor] ?? null;
        $isCallable = !is_iterable($rows);
        $rows = $isCallable ? $rows($position) : $rows;
        $isSkipping = $position !== null && !$isCallable;
        $number = $isCallable && $key === null && is_int($position) ? $position + 1 : 0;
        $lasts = [];
        $savedAt = Clock::now();
        $isDirty = false;
        foreach ($rows as $name => $row) {
            $here = $key === null ? $number++ : $key($row);
            if ($isSkipping) {
                $isSkipping = !self::isSame($here, $position);
                continue;
            }
            $this->stopIfTime($lasts === [] ? 0.0 : max($lasts), $isDirty);
            $start = Clock::now();
            yield $name => $row;
            $now = Clock::now();
            $lasts = array_slice([...$lasts, $now - $start], -self::LAST_ROWS);
            $this->cursors[$cursor] = $here;
            $isDirty = true;
            if ($now - $savedAt >= self::SAVE_EVERY) {
                $this->job->saveCheckpoint($this->form());
                $savedAt = $now;
                $isDirty = false;
            }
        }
        if ($isSkipping) {
            throw new StepsChanged('no row is at the saved position ' . Text::clean(Json::encode($position), 200)
                . ': rows come in the same order in each attempt, and none is taken away');
        }
        if ($isDirty) {
            $this->job->saveCheckpoint($this->form());
        }
    }

    private static function isSame(mixed $here, mixed $position): bool
    {
        if ($here === $position) {
            return true;
        }
        if (is_int($here) && is_int($position) || is_string($here) && is_string($position)) {
            return false;
        }
        return Json::encode(Json::decode(Json::encode($here))) === Json::encode($position);
    }

    /** Ends the handler where it is if the time that is left is not enough for what comes next. */
    private function stopIfTime(float $longest, bool $isDirty): void
    {
        $reason = $this->job->cancelReason();
        $left = $reason === null ? $this->job->remaining() : null;
        if ($reason === null && ($left === null || $left >= max(1.5 * $longest, self::LEAST_REMAINING))) {
            return;
        }
        if ($isDirty) {
            $this->job->saveCheckpoint($this->form());
        }
        if (!in_array($reason, ['timeout', 'cancelled', 'lost'], true)) {
            throw new Release('resumes at its checkpoint');
        }
        throw new Cancelled($reason);
    }
}
