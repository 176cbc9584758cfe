<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * The position of a job: its finished steps, the cursors of its loops, and the program's own state.
 *
 * @internal
 */
final class Resume
{
    private const MAX_BYTES = 65_536;
    private const SAVE_SECONDS = 5.0;
    private const LEAST_SECONDS = 0.25;
    private const LAST_ROWS = 10;

    /** @var array<string, float> seconds that each step last took in this process */
    private static array $durations = [];

    public mixed $state = null;
    /** @var list<array{string, mixed}> finished steps with their results */
    private array $steps = [];
    /** @var array<string, mixed> the key of the last finished row, by step; "" outside of steps */
    private array $cursors = [];
    /** @var array<string, true> names of the steps that came in this attempt */
    private array $names = [];
    private string $current = '';
    private bool $isDirty = false;
    private float $savedAt;

    public function __construct(private readonly Job $job, mixed $checkpoint)
    {
        $this->savedAt = Session::now();
        // A backend may spell the version 1.0.
        if (!is_array($checkpoint) || !in_array($checkpoint['ojs_resume'] ?? null, [1, 1.0], true)) {
            $this->state = $checkpoint;
            return;
        }
        $this->steps = $checkpoint['steps'] ?? [];
        $this->cursors = $checkpoint['cursors'] ?? [];
        $this->state = $checkpoint['state'] ?? null;
    }

    public function saveState(mixed $state): void
    {
        $this->state = self::copy($state);
        $this->save();
    }

    /**
     * A value as the next attempt gets it. An object of the program might change until it is saved
     * again.
     */
    private static function copy(mixed $value): mixed
    {
        return $value === null || is_int($value) || is_bool($value) ? $value : Json::decode(Json::encode($value));
    }

    private function save(): void
    {
        // A cancel may come at any moment: the position is saved again rather than not at all.
        $this->job->send('checkpoint', ['state' => $this->form()]);
        $this->isDirty = false;
        $this->savedAt = Session::now();
    }

    public function saveBeforeEnd(): void
    {
        if ($this->isDirty) {
            $this->save();
        }
    }

    private function form(): mixed
    {
        if ($this->steps === [] && $this->cursors === []) {
            return $this->state;
        }
        $form = [
            'ojs_resume' => 1, 'steps' => $this->steps, 'cursors' => (object) $this->cursors, 'state' => $this->state,
        ];
        $size = strlen(Json::encode($form));
        if ($size > self::MAX_BYTES) {
            $this->isDirty = false;
            throw new CheckpointTooLarge("steps, positions and state of the job are $size bytes of JSON; at most "
                . self::MAX_BYTES . ' are kept: return something small from a step, such as the name of a file');
        }
        return $form;
    }

    /** @param array<mixed> $args */
    public function step(string $name, callable $function, array $args): mixed
    {
        if ($this->current !== '') {
            throw new \LogicException("the step $name is inside the step {$this->current}; steps follow each other");
        }
        if ($name === '' || isset($this->names[$name])) {
            throw new StepsChanged("two steps of the job have the name \"$name\"; each has a name of its own");
        }
        $finished = $this->steps[count($this->names)] ?? null;
        $this->names[$name] = true;
        if ($finished === null) {
            return $this->begin($name, $function, $args);
        }
        if ($finished[0] !== $name) {
            throw new StepsChanged('the steps of the job have changed: finished are '
                . implode(', ', array_column($this->steps, 0)) . '; now comes ' . $name);
        }
        return $finished[1];
    }

    /** @param array<mixed> $args */
    private function begin(string $name, callable $function, array $args): mixed
    {
        foreach (array_keys($this->cursors) as $open) {
            if ($open !== '' && !isset($this->names[$open])) {
                throw new StepsChanged(
                    "the steps of the job have changed: an earlier attempt stopped in the step $open; now comes $name"
                );
            }
        }
        $duration = &self::$durations[$this->job->type . "\0" . $name];
        $this->job->endIfLessIsLeft(max(1.5 * ($duration ?? 0.0), self::LEAST_SECONDS));
        $start = Session::now();
        $this->current = $name;
        try {
            $result = self::copy($function(...$args));
        } finally {
            $this->current = '';
        }
        $duration = Session::now() - $start;
        $this->isDirty = true;
        $this->steps[] = [$name, $result];
        unset($this->cursors[$name]);
        $this->save();
        return $result;
    }

    public function iterate(iterable|callable $rows, ?callable $key): \Generator
    {
        $step = $this->current;
        $position = $this->cursors[$step] ?? null;
        if ($key === null && $position !== null && !is_int($position) && !is_float($position)) {
            throw new StepsChanged('the rows had keys in an earlier attempt, and now they have none');
        }
        $isBehind = !is_iterable($rows);
        $index = $isBehind && $key === null && $position !== null ? (int) $position + 1 : 0;
        $isSought = $position !== null && !$isBehind;
        $lasts = [0.0];
        foreach ($isBehind ? $rows($position) : $rows as $name => $row) {
            $here = ($key === null ? $index++ : self::copy($key($row)))
                ?? throw new \LogicException('the key of a row is null');
            if ($isSought) {
                $isSought = !self::isSame($here, $position);
                continue;
            }
            $this->job->endIfLessIsLeft(max(1.5 * max($lasts), self::LEAST_SECONDS));
            $start = Session::now();
            yield $name => $row;
            $now = Session::now();
            $lasts = array_slice([...$lasts, $now - $start], -self::LAST_ROWS);
            $this->isDirty = true;
            $this->cursors[$step] = $here;
            if ($now - $this->savedAt >= self::SAVE_SECONDS) {
                $this->save();
            }
        }
        if ($isSought && $key !== null) {
            throw new StepsChanged('no row has the saved key: rows come in the same order in each attempt');
        }
    }

    /**
     * Whether two keys are the same: a backend may spell 10 as 10.0, and order the members of an
     * object anew.
     */
    private static function isSame(mixed $key, mixed $other): bool
    {
        return is_string($key) || is_string($other) ? $key === $other : $key == $other;
    }
}
