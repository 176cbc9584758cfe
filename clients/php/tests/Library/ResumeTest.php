<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests\Library;

use Ojs\Worker\Job;
use Ojs\Worker\Outcome;
use Ojs\Worker\Tests\RecordingLogger;
use Ojs\Worker\Worker;
use PHPUnit\Framework\TestCase;

/** Work that goes on where an earlier attempt stopped. */
final class ResumeTest extends TestCase
{
    private static function form(array $steps = [], array $cursors = [], mixed $state = null): array
    {
        return ['ojs_resume' => 1, 'steps' => $steps, 'cursors' => $cursors, 'state' => $state];
    }

    private static function perform(\Closure $handler, mixed ...$how): Outcome
    {
        return (new Worker(log: new RecordingLogger()))->job('t', $handler)->perform('t', ...$how);
    }

    public function testAFinishedStepIsNotDoneAgainAndItsResultIsTheSavedOne(): void
    {
        $ran = [];
        $handler = function (Job $job) use (&$ran): array {
            $step = function (string $name, int $n) use (&$ran): array {
                $ran[] = $name;
                return [$name, $n];
            };
            $a = $job->step('a', $step, 'a', 1);
            $b = $job->step('b', $step, 'b', 2);
            return [$a, $b];
        };
        $first = self::perform($handler);
        self::assertSame([self::form([['a', ['a', 1]]]), self::form([['a', ['a', 1]], ['b', ['b', 2]]])], $first->checkpoints);
        $ran = [];
        self::assertSame($first->result, self::perform($handler, checkpoint: $first->checkpoints[0])->result);
        self::assertSame(['b'], $ran);
    }

    public static function changed(): array
    {
        $step = fn (string ...$names): \Closure => function (Job $job) use ($names): void {
            array_map(fn (string $name) => $job->step($name, fn () => 1), $names);
        };
        return [
            'another order' => [$step('b', 'a'), self::form([['a', 1]])],
            'twice the same' => [$step('a', 'a'), null],
            'another one than that which had begun' => [$step('b'), self::form([], ['a' => 3])],
            'keys before and none now' => [fn (Job $job) => iterator_to_array($job->iterate([1, 2])), self::form([], ['' => 'k'])],
            'the key is gone' => [fn (Job $job) => iterator_to_array($job->iterate([1, 2], fn ($n) => $n)), self::form([], ['' => 5])],
        ];
    }

    /** @dataProvider changed */
    public function testWorkThatHasChangedFailsForGood(\Closure $handler, mixed $checkpoint): void
    {
        $error = self::perform($handler, checkpoint: $checkpoint)->error;
        self::assertSame(['StepsChanged', false], [$error['type'] ?? null, $error['retryable'] ?? null]);
    }

    public function testAStepInsideOfAStepIsRefused(): void
    {
        $outcome = self::perform(fn (Job $job) => $job->step('a', fn () => $job->step('b', fn () => 1)));
        self::assertSame('the step b is inside the step a; steps follow each other', $outcome->error['message']);
    }

    public static function rows(): array
    {
        $rows = [['id' => 'x'], ['id' => 'y'], ['id' => 'z']];
        $key = fn (array $row): string => $row['id'];
        return [
            'from the beginning' => [$rows, null, null, ['x', 'y', 'z']],
            'behind an index' => [$rows, null, 0, ['y', 'z']],
            'behind a spelled index' => [new \ArrayIterator($rows), null, 1.0, ['z']],
            'behind a key' => [$rows, $key, 'y', ['z']],
            'behind the last' => [$rows, $key, 'z', []],
            'fewer than before' => [$rows, null, 8, []],
            'by a function' => [fn (?string $last): array => $last === null ? $rows : [['id' => 'new']], $key, 'y', ['new']],
            'by a function from the beginning' => [fn (?string $last): array => $last === null ? $rows : [], $key, null, ['x', 'y', 'z']],
        ];
    }

    /** @dataProvider rows */
    public function testRowsGoOnBehindThePosition(mixed $rows, ?\Closure $key, mixed $position, array $left): void
    {
        $checkpoint = $position === null ? null : self::form([], ['' => $position]);
        $handler = function (Job $job) use ($rows, $key): array {
            $done = [];
            foreach ($job->iterate($rows, $key) as $row) {
                $done[] = $row['id'];
            }
            return $done;
        };
        self::assertSame($left, self::perform($handler, checkpoint: $checkpoint)->result);
    }

    public static function ends(): array
    {
        return [
            'no time is left' => [['stopping' => 0.2], 'resumes at its checkpoint', null],
            'too little for a row like the last' => [['stopping' => 1.0], 'resumes at its checkpoint', null],
            'cancelled in a row' => [['cancel' => 'shutdown', 'cancelAfter' => 0.15], 'shutdown', null],
            'its timeout' => [['timeout' => 0.15], null, 'timeout'],
        ];
    }

    /** @dataProvider ends */
    public function testThePositionIsSavedWhenTheWorkEnds(array $how, ?string $reason, ?string $code): void
    {
        $done = 0;
        $outcome = self::perform(function (Job $job) use (&$done): void {
            foreach ($job->iterate(range(0, 99)) as $row) {
                $job->sleep(0.1);
                $done++;
            }
        }, ...$how);
        self::assertSame([$reason, $code], [$outcome->reason, $outcome->error['code'] ?? null]);
        self::assertLessThan(10, $done);
        self::assertSame($done === 0 ? [] : [self::form([], ['' => $done - 1])], $outcome->checkpoints);
    }

    public function testAnErrorSavesThePositionToo(): void
    {
        $outcome = self::perform(function (Job $job): void {
            $job->step('load', function () use ($job): void {
                foreach ($job->iterate(['a', 'b', 'c']) as $number => $row) {
                    $number < 2 ?: throw new \Exception('x');
                }
            });
        });
        self::assertSame([self::form([], ['load' => 1])], $outcome->checkpoints);
    }

    public function testAStateOfTheProgramTravelsAlongside(): void
    {
        self::assertSame([['mine' => 1]], self::perform(fn (Job $job) => $job->checkpoint(['mine' => 1]))->checkpoints);
        $outcome = self::perform(function (Job $job): mixed {
            $job->step('a', fn () => 1);
            $job->checkpoint('new');
            return $job->lastCheckpoint;
        }, checkpoint: self::form([], [], 'old'));
        self::assertSame('old', $outcome->result);
        self::assertSame(self::form([['a', 1]], [], 'new'), $outcome->checkpoints[1]);
    }

    public function testMoreThan64KiBFailsForGoodAndIsNotSaved(): void
    {
        $outcome = self::perform(fn (Job $job) => $job->step('a', fn () => str_repeat('x', 65_536)));
        self::assertSame(['CheckpointTooLarge', false], [$outcome->error['type'], $outcome->error['retryable']]);
        self::assertStringContainsString('65536', $outcome->error['message']);
        self::assertSame([], $outcome->checkpoints);
    }
}
