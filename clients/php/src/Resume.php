<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function abs;
use function array_column;
use function array_is_list;
use function array_keys;
use function array_map;
use function array_pop;
use function array_slice;
use function count;
use function implode;
use function in_array;
use function is_array;
use function is_bool;
use function is_float;
use function is_int;
use function is_iterable;
use function is_scalar;
use function is_string;
use function ksort;
use function max;
use function strlen;
use function strval;

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
    /** How deep a result or a key may be nested within what is saved. */
    private const DEPTH_OF_RESULT = Json::DEPTH - 3;

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
    /** What ended the handler: it counts whatever the handler makes of it. */
    private ?\Throwable $ended = null;
    /** The step that failed last, with its error: no other one begins. */
    private string $failedStep = '';
    private ?\Throwable $failure = null;
    /** Whether that step was called again. */
    private bool $isRepeated = false;

    public function __construct(private readonly Job $job, mixed $checkpoint)
    {
        $this->savedAt = Clock::now();
        // A backend may spell it 1.0.
        if (!is_array($checkpoint) || !in_array($checkpoint['ojs_resume'] ?? null, [1, 1.0], true)) {
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
        $this->state = self::copy($state);
        $this->saveOr(function () use ($before): void {
            $this->state = $before;
        });
    }

    /** A value as it is now: an object may change before it is saved the next time. */
    private static function copy(mixed $value, int $depth = Json::DEPTH): mixed
    {
        return $value === null || is_int($value) || is_bool($value) ? $value : Json::decode(Json::encode($value, $depth), true);
    }

    /** Objects as arrays, as the next attempt sees them. */
    private static function asSeen(mixed $kept): mixed
    {
        return $kept === null || is_scalar($kept) ? $kept : Json::decode(Json::encode($kept));
    }

    /** @param \Closure(): void $restore for what can never be saved; what ojs-init could not take now is saved later */
    private function saveOr(\Closure $restore): void
    {
        try {
            $this->save();
        } catch (Stalled | ConnectionLost $later) {
            $this->isDirty = true;
            throw $later;
        } catch (\Throwable $unfit) {
            $restore();
            throw $unfit;
        }
    }

    /** @return array<mixed> what a call of the handler begins with, for `rewind` */
    public function mark(): array
    {
        return [$this->names, $this->loops, $this->current];
    }

    /**
     * The handler is called again: its steps and loops come again, and those that are finished by now are known.
     *
     * @param ?array<mixed> $mark of its first call; null: there was neither a step nor a loop before
     */
    public function rewind(?array $mark): void
    {
        [$this->names, $this->loops, $this->current] = $mark ?? [[], [], ''];
        $this->reached = count($this->names);
        $this->failure = null;
        $this->isRepeated = false;
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
        if ($this->ended !== null) {
            throw $this->ended;
        }
        if ($this->current !== '') {
            throw new \LogicException("the step $name is within the step {$this->current}; steps follow each other");
        }
        if ($this->failure !== null && ($this->failedStep !== $name || $this->isRepeated)) {
            throw $this->failure;
        }
        $this->isRepeated = $this->failure !== null;
        if ($name === '' || isset($this->names[$name])) {
            throw $this->changed($name === '' ? 'a step has a name'
                : "there are two steps with the name $name in this job; each has a name of its own");
        }
        $this->names[$name] = true;
        $at = $this->reached++;
        try {
            $result = $at < count($this->steps) ? $this->finished($at, $name) : $this->begun($name, $function, $args);
        } catch (\Throwable $error) {
            // It may come once more, and its loop as well.
            unset($this->names[$name], $this->loops[$name]);
            $this->reached--;
            [$this->failedStep, $this->failure] = [$name, $error];
            throw $error;
        }
        $this->failure = null;
        return $result;
    }

    private function finished(int $at, string $name): mixed
    {
        if ($this->steps[$at][0] !== $name) {
            throw $this->changed('the steps of this job have changed: finished are '
                . implode(', ', array_column($this->steps, 0)) . '; now come '
                . implode(', ', array_map(strval(...), array_keys($this->names))));
        }
        if ($this->isDirty && $this->isRepeated) {
            // It is finished, but ojs-init did not take that when it ended.
            $this->save();
        }
        return self::asSeen($this->steps[$at][1]);
    }

    /** @param array<mixed> $args */
    private function begun(string $name, callable $function, array $args): mixed
    {
        foreach (array_keys($this->cursors) as $open) {
            // A step in which an earlier attempt stopped has to come before any new one.
            if ($open !== '' && !isset($this->names[$open])) {
                throw $this->changed(
                    "the steps of this job have changed: an earlier attempt stopped in the step $open; now comes $name"
                );
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
        if ($this->ended !== null) {
            // The step has caught the end of its loop: it is not finished.
            throw $this->ended;
        }
        self::$durations[$this->job->type . "\0" . $name] = Clock::now() - $start;
        try {
            $kept = self::copy($result, self::DEPTH_OF_RESULT);
        } catch (\Throwable $unfit) {
            throw new Discard(
                "the handler's result is not JSON: of step $name: " . Text::clean($unfit->getMessage(), 500),
                type: 'InvalidResult',
            );
        }
        $before = [$this->cursors, $this->isDirty];
        unset($this->cursors[$name]);
        $this->steps[] = [$name, $kept];
        $this->isDirty = true;
        $this->saveOr(function () use ($before): void {
            array_pop($this->steps);
            [$this->cursors, $this->isDirty] = $before;
        });
        return self::asSeen($kept);
    }

    private function changed(string $message): \Throwable
    {
        return $this->end(new StepsChanged($message));
    }

    /** The job ends with that, whatever the handler makes of it: its loop or its steps cannot go on. */
    private function end(\Throwable $error): \Throwable
    {
        return $this->ended ??= $error;
    }

    public function iterate(iterable|callable $rows, ?callable $key): \Generator
    {
        $cursor = $this->current;
        if (isset($this->loops[$cursor])) {
            $place = $cursor === '' ? 'outside of steps' : "in the step $cursor";
            throw new Discard("there are two loops over rows $place: put each into a step of its own", type: 'WrongUse');
        }
        $this->loops[$cursor] = true;
        $position = $this->startOf($cursor, $key !== null);
        $isCallable = !is_iterable($rows);
        $rows = $isCallable ? $rows(self::asSeen($position)) : $rows;
        $sought = $position === null || $isCallable || $key === null ? null : self::canonical($position);
        $first = $key === null && $position !== null ? $position + 1 : 0;
        $number = $isCallable ? $first : 0;
        $lasts = [];
        foreach ($rows as $name => $row) {
            if ($key === null) {
                $here = $number++;
                if ($here < $first) {
                    continue;
                }
            } else {
                $here = $this->position($key($row));
                if ($sought !== null) {
                    $sought = self::canonical($here) === $sought ? null : $sought;
                    continue;
                }
            }
            $this->stopIfTime($lasts === [] ? 0.0 : max($lasts));
            $start = Clock::now();
            yield $name => $row;
            $now = Clock::now();
            $lasts = array_slice([...$lasts, $now - $start], -self::LAST_ROWS);
            $this->cursors[$cursor] = $here;
            $this->isDirty = true;
            if ($now - $this->savedAt >= self::SAVE_EVERY) {
                try {
                    $this->save();
                } catch (\Throwable $unsaved) {
                    throw $this->end($unsaved);
                }
            }
        }
        if ($sought !== null) {
            throw $this->changed('no row is at the saved position ' . Text::clean($sought, 200)
                . ': rows come in the same order in each attempt, and none is taken away');
        }
    }

    /** The saved position of a loop: an index, where its rows have no keys. */
    private function startOf(string $cursor, bool $hasKeys): mixed
    {
        $position = $this->cursors[$cursor] ?? null;
        if ($hasKeys || $position === null) {
            return $position;
        }
        $index = self::withWholeNumbers($position);
        return is_int($index) ? $index : throw $this->changed(
            'the rows had keys in an earlier attempt, the last was ' . Text::clean(Json::encode($position), 200)
        );
    }

    private function position(mixed $key): mixed
    {
        if ($key === null) {
            throw $this->end(new Discard('the key of a row is null: it cannot be told from no position', type: 'WrongUse'));
        }
        try {
            return self::copy($key, self::DEPTH_OF_RESULT);
        } catch (\Throwable $unfit) {
            throw $this->end(
                new Discard('the key of a row is not JSON: ' . Text::clean($unfit->getMessage(), 500), type: 'WrongUse')
            );
        }
    }

    /** A key in one spelling: a backend may spell 10 as 10.0 or 1e1, and give the members of an object another order. */
    private static function canonical(mixed $key): string
    {
        return Json::encode(self::withWholeNumbers(self::asSeen($key)));
    }

    private static function withWholeNumbers(mixed $value): mixed
    {
        if (is_float($value) && abs($value) < 2 ** 63 && (float) (int) $value === $value) {
            return (int) $value;
        }
        if (is_array($value)) {
            $value = array_map(self::withWholeNumbers(...), $value);
            if (!array_is_list($value)) {
                ksort($value, SORT_STRING);
            }
        }
        return $value;
    }

    /** Ends the handler where it is if the time that is left is not enough for what comes next. */
    private function stopIfTime(float $longest): void
    {
        if ($this->ended !== null) {
            throw $this->ended;
        }
        $reason = $this->job->cancelReason();
        $left = $reason === null ? $this->job->remaining() : null;
        if ($reason === null && ($left === null || $left >= max(1.5 * $longest, self::LEAST_REMAINING))) {
            return;
        }
        // The position is saved before the answer.
        throw $this->end(in_array($reason, ['timeout', 'cancelled', 'lost'], true)
            ? new Cancelled($reason)
            : new Release('resumes at its checkpoint'));
    }
}
