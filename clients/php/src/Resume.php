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
    /** @var array<string, true> the loops that there were, by the step that they stand in */
    private array $loops = [];
    /** Rows were finished since the position was saved. */
    private bool $isDirty = false;
    private float $savedAt;
    private ?\Throwable $ended = null;

    public function __construct(private readonly Job $job, mixed $checkpoint)
    {
        $this->savedAt = Clock::now();
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

    /** Save what the program itself keeps. What does not fit is not kept, so that it spoils nothing that is saved later. */
    public function saveUserState(mixed $state): void
    {
        $before = $this->state;
        $this->state = $state;
        try {
            $this->save();
        } catch (CheckpointTooLarge | Discard $unfit) {
            $this->state = $before;
            throw $unfit;
        }
    }

    /** For an answer after which the job may come again. */
    public function saveBeforeEnd(Logger $log): void
    {
        if (!$this->isDirty) {
            return;
        }
        try {
            $this->save();
        } catch (\Throwable $error) {
            $log->error('job {id}: its position was not saved: {why}', [
                'id' => $this->job->id, 'why' => $error->getMessage(), 'ojs_job' => $this->job,
            ]);
        }
    }

    /** What ended the handler between two rows or steps; the handler may have made something else of it. */
    public function endedBy(): ?\Throwable
    {
        return $this->ended;
    }

    private function save(): void
    {
        $this->job->saveCheckpoint($this->form());
        $this->isDirty = false;
        $this->savedAt = Clock::now();
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
        foreach (array_keys($this->cursors) as $open) {
            // A step in which an earlier attempt stopped has to come before any new one.
            if ($open !== '' && !isset($this->names[$open])) {
                throw new StepsChanged("the steps of this job have changed: an earlier attempt stopped in the step $open; now comes $name");
            }
        }
        $this->stopIfTime(self::$durations[$this->job->type . "\0" . $name] ?? 0.0);
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
        $this->isDirty = true;
        $this->save();
        // As the next attempt would see it.
        return $result === null || is_scalar($result) ? $result : Json::decode(Json::encode($result));
    }

    public function iterate(iterable|callable $rows, ?callable $key): \Generator
    {
        $cursor = $this->current;
        if (isset($this->loops[$cursor])) {
            $place = $cursor === '' ? 'outside of steps' : "in the step $cursor";
            throw new Discard("there are two loops over rows $place: put each into a step of its own", type: 'WrongUse');
        }
        $this->loops[$cursor] = true;
        $position = $this->cursors[$cursor] ?? null;
        if ($key === null && is_float($position) && (float) (int) $position === $position) {
            $position = (int) $position; // a backend may spell an index 1.0
        }
        $isCallable = !is_iterable($rows);
        $rows = $isCallable ? $rows($position) : $rows;
        $isSkipping = $position !== null && !$isCallable;
        $number = $isCallable && $key === null && is_int($position) ? $position + 1 : 0;
        $lasts = [];
        foreach ($rows as $name => $row) {
            $here = $key === null ? $number++ : $key($row);
            if ($isSkipping) {
                $isSkipping = !self::isSame($here, $position);
                continue;
            }
            $this->stopIfTime($lasts === [] ? 0.0 : max($lasts));
            $start = Clock::now();
            yield $name => $row;
            $now = Clock::now();
            $lasts = array_slice([...$lasts, $now - $start], -self::LAST_ROWS);
            $this->cursors[$cursor] = $here;
            $this->isDirty = true;
            if ($now - $this->savedAt >= self::SAVE_EVERY) {
                $this->save();
            }
        }
        if ($isSkipping) {
            throw new StepsChanged('no row is at the saved position ' . Text::clean(Json::encode($position), 200)
                . ': rows come in the same order in each attempt, and none is taken away');
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
        // A backend may spell 10 as 10.0 or 1e1.
        if ((is_int($here) || is_float($here)) && (is_int($position) || is_float($position))) {
            return $here == $position;
        }
        return Json::encode(Json::decode(Json::encode($here))) === Json::encode($position);
    }

    /** Ends the handler where it is if the time that is left is not enough for what comes next. */
    private function stopIfTime(float $longest): void
    {
        $reason = $this->job->cancelReason();
        $left = $reason === null ? $this->job->remaining() : null;
        if ($reason === null && ($left === null || $left >= max(1.5 * $longest, self::LEAST_REMAINING))) {
            return;
        }
        // The position is saved before the answer.
        $this->ended = in_array($reason, ['timeout', 'cancelled', 'lost'], true)
            ? new Cancelled($reason)
            : new Release('resumes at its checkpoint');
        throw $this->ended;
    }
}
