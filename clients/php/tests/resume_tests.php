<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests;

use Ojs\Worker\Discard;
use Ojs\Worker\Job;
use Ojs\Worker\Logger;
use Ojs\Worker\Release;
use Ojs\Worker\Retry;
use Ojs\Worker\Worker;

/** What an earlier attempt saved. */
function saved(array $cursors, array $steps = [], mixed $state = null): array
{
    return ['ojs_resume' => 1, 'steps' => $steps, 'cursors' => $cursors, 'state' => $state];
}

/** A handler with one step, whose loop is ended in its first row and which catches that; $end is what comes then. */
function swallowing(\Closure $end): \Closure
{
    return function (Job $job) use ($end): mixed {
        try {
            $job->step('load', function () use ($job): string {
                try {
                    foreach ($job->iterate(range(0, 9)) as $row) {
                        $job->waitStopping(5);
                    }
                } catch (\Throwable) {
                }
                return 'all of it';
            });
        } catch (\Throwable) {
        }
        return $end($job);
    };
}

test('a step that catches the end of its loop is not finished, and its job is given back', function (): void {
    $outcome = workerWith(swallowing(fn () => 'done'))->perform('t', stopping: 0.2, stoppingAfter: 0.05);
    Tests::same(['release', 'resumes at its checkpoint'], [$outcome->outcome, $outcome->reason]);
    Tests::same([saved(['load' => 0])], $outcome->checkpoints);
});
test('after the end of a loop no other step begins', function (): void {
    $ran = false;
    $outcome = workerWith(swallowing(function (Job $job) use (&$ran): mixed {
        return $job->step('other', function () use (&$ran): void {
            $ran = true;
        });
    }))->perform('t', stopping: 0.2, stoppingAfter: 0.05);
    Tests::same(['release', false], [$outcome->outcome, $ran]);
});
test('what a handler raises after the end of a loop is logged with its stack, its own verdict counts', function (): void {
    foreach ([[new \TypeError('a bug'), 'release'], [new \DomainException('a bug'), 'release'], [new Retry('mine'), 'fail'],
        [new Release('mine'), 'release']] as [$error, $expected]) {
        $stream = fopen('php://memory', 'w+');
        $worker = (new Worker(log: new Logger('json', stream: $stream)))->job('t', swallowing(fn () => throw $error));
        $outcome = $worker->perform('t', stopping: 0.2, stoppingAfter: 0.05);
        Tests::same($expected, $outcome->outcome, $error::class);
        rewind($stream);
        $lines = array_filter(array_map(json_decode(...), explode("\n", (string) stream_get_contents($stream))));
        if ($error instanceof Retry || $error instanceof Release) {
            Tests::same([[], 'mine'], [$lines, $outcome->reason ?? $outcome->error['message']]);
            continue;
        }
        Tests::same(['resumes at its checkpoint', 'WARN', 'a bug'],
            [$outcome->reason, $lines[0]->severity, $lines[0]->error->message]);
        Tests::has('resume_tests.php', $lines[0]->error->stack);
    }
});
test('that steps have changed ends the job, also where the handler catches that', function (): void {
    $ran = false;
    $worker = workerWith(function (Job $job) use (&$ran): string {
        foreach (['other', 'pay'] as $name) {
            try {
                $job->step($name, function () use (&$ran): void {
                    $ran = true;
                });
            } catch (\Throwable) {
            }
        }
        return 'done';
    });
    $error = $worker->perform('t', checkpoint: saved([], [['thumbnail', 1]]))->error;
    Tests::same(['StepsChanged', false, false], [$error['type'], $error['retryable'], $ran]);
});
test('after a step that failed only the same one may be called, once more', function (): void {
    $ran = [];
    $step = function (Job $job, string $name, int $failures) use (&$ran): string {
        return $job->step($name, function () use ($name, $failures, &$ran): string {
            $ran[] = $name;
            return count($ran) > $failures ? $name : throw new \RuntimeException("no $name");
        });
    };
    $other = workerWith(function (Job $job) use ($step): string {
        try {
            $step($job, 'thumbnail', 9);
        } catch (\RuntimeException) {
        }
        return $step($job, 'pay', 0);
    })->perform('t');
    Tests::same(['fail', 'no thumbnail', true], [$other->outcome, $other->error['message'], $other->error['retryable']]);
    Tests::same(['thumbnail'], $ran);
    $again = fn (int $failures) => workerWith(function (Job $job) use ($step, $failures): array {
        for ($try = 0; $try < 3; $try++) {
            try {
                return [$step($job, 'a', $failures), $step($job, 'b', 0)];
            } catch (\RuntimeException $error) {
            }
        }
        throw $error;
    });
    $ran = [];
    Tests::same(['a', 'b'], $again(1)->perform('t')->result);
    $ran = [];
    Tests::same('no a', $again(9)->perform('t')->error['message']);
    Tests::same(['a', 'a'], $ran);
});
test('a step that is called again goes on in its rows where it failed', function (): void {
    $done = [];
    $outcome = workerWith(function (Job $job) use (&$done): void {
        for ($try = 0; $try < 2; $try++) {
            try {
                $job->step('load', function () use ($job, $try, &$done): void {
                    foreach ($job->iterate(range(0, 3)) as $row) {
                        $row === 2 && $try === 0 && throw new \RuntimeException('no');
                        $done[] = $row;
                    }
                });
            } catch (\RuntimeException) {
            }
        }
    })->perform('t');
    Tests::same(['ack', [0, 1, 2, 3]], [$outcome->outcome, $done]);
});
test('a middleware that calls the handler again does not do a finished step or row again', function (): void {
    $ran = [];
    $worker = workerWith(function (Job $job) use (&$ran): array {
        $results = [$job->step('pack', function () use (&$ran): array {
            $ran[] = 'pack';
            return ['a' => new \stdClass()];
        })];
        foreach ($job->iterate([1, 2, 3]) as $row) {
            $ran[] = $row;
            $row === 2 && count($ran) < 4 && throw new \RuntimeException('flaky');
        }
        return [...$results, $job->step('send', fn () => count($ran))];
    });
    $worker->middleware(function (Job $job, callable $next): mixed {
        $job->step('around', fn () => 1);
        try {
            return $next();
        } catch (\RuntimeException) {
            return $next();
        }
    });
    $outcome = $worker->perform('t');
    Tests::same([['a' => []], 5], $outcome->result);
    Tests::same(['pack', 1, 2, 2, 3], $ran);
});
test('what cannot be saved is told, and spoils nothing that is saved later', function (): void {
    $deep = [];
    for ($i = 0; $i < 98; $i++) {
        $deep = [$deep];
    }
    foreach ([NAN, "\xff", $deep, str_repeat('x', 70_000), str_repeat('x', 5_000_000)] as $unfit) {
        $outcome = workerWith(function (Job $job) use ($unfit): int {
            $job->step('before', fn () => 1);
            try {
                $job->checkpoint($unfit);
            } catch (\Throwable) {
                return $job->step('a', fn () => 1);
            }
            throw new \LogicException('nothing was raised');
        })->perform('t');
        Tests::same(['ack', null], [$outcome->outcome, $outcome->checkpoints[1]['state'] ?? null]);
    }
    Tests::same('ack', workerWith(function (Job $job): int {
        Tests::throws(\JsonException::class, fn () => $job->checkpoint(NAN));
        return $job->step('a', fn () => 1);
    })->perform('t')->outcome);
});
test('an object that changes after it was saved is saved as it was', function (): void {
    $outcome = workerWith(function (Job $job): mixed {
        $object = (object) ['n' => 1];
        $job->checkpoint($object);
        $job->step('a', fn () => $object);
        $object->n = 99;
        return $job->step('b', fn () => new \stdClass());
    })->perform('t');
    Tests::same(saved([], [['a', ['n' => 1]], ['b', []]], ['n' => 1]), $outcome->checkpoints[2]);
});
test("a step's result that is no JSON is InvalidResult, for good", function (): void {
    foreach ([NAN, "\xff", fopen('php://memory', 'r')] as $bad) {
        $outcome = workerWith(fn (Job $job) => $job->step('a', fn () => $bad))->perform('t');
        Tests::same(['InvalidResult', false, []],
            [$outcome->error['type'], $outcome->error['retryable'], $outcome->checkpoints]);
        Tests::has('of step a', $outcome->error['message']);
    }
});
test('a step whose result is too large is not kept in what is saved when the job ends', function (): void {
    $outcome = workerWith(function (Job $job): void {
        $job->step('a', fn () => 1);
        $job->step('b', function () use ($job): string {
            foreach ($job->iterate([1, 2]) as $row) {
            }
            return str_repeat('x', 70_000);
        });
    })->perform('t');
    Tests::same('CheckpointTooLarge', $outcome->error['type']);
    Tests::same(saved(['b' => 1], [['a', 1]]), $outcome->checkpoints[1]);
});
test('where there are fewer rows than an attempt had finished, none is left', function (): void {
    $worker = workerWith(fn (Job $job) => iterator_to_array($job->iterate([1, 2, 3]), false));
    foreach ([2, 5, 5.0] as $index) {
        Tests::same([], $worker->perform('t', checkpoint: saved(['' => $index]))->result);
    }
    Tests::same('StepsChanged', $worker->perform('t', checkpoint: saved(['' => 'k7']))->error['type']);
});
test('what an earlier attempt saved counts also where a backend spells its version 1.0', function (): void {
    $worker = workerWith(fn (Job $job) => $job->step('a', fn () => 'ran again'));
    $form = ['ojs_resume' => 1.0] + saved([], [['a', 'kept']]);
    Tests::same('kept', $worker->perform('t', checkpoint: $form)->result);
});
test('a key of several fields is the same in another spelling, and another one is not', function (): void {
    $rows = [['tenant' => 1, 'id' => 7], ['tenant' => 1, 'id' => 8]];
    $worker = workerWith(fn (Job $job, array $rows) => array_column(
        iterator_to_array($job->iterate($rows, fn (array $row) => $row), false), 'id'));
    foreach ([['id' => 7, 'tenant' => 1], ['id' => 7.0, 'tenant' => 1.0]] as $key) {
        Tests::same([8], $worker->perform('t', [$rows], checkpoint: saved(['' => $key]))->result);
    }
    Tests::same('StepsChanged', $worker->perform('t', [$rows], checkpoint: saved(['' => ['id' => 9, 'tenant' => 1]]))->error['type']);
    $numbers = workerWith(fn (Job $job) => iterator_to_array($job->iterate([1, true, 9007199254740993, 4], fn ($key) => $key), false));
    Tests::same([9007199254740993, 4], $numbers->perform('t', checkpoint: saved(['' => true]))->result);
    Tests::same('StepsChanged', $numbers->perform('t', checkpoint: saved(['' => 9007199254740992.0]))->error['type']);
});
test('a loop that ended with an error of the library has not done all rows, also where the handler catches that', function (): void {
    $outcome = workerWith(function (Job $job): string {
        try {
            foreach ($job->iterate([1, 2], fn (int $row) => $row === 2 ? NAN : $row) as $row) {
            }
        } catch (Discard) {
        }
        return 'all rows';
    })->perform('t');
    Tests::same(['fail', 'WrongUse', ['' => 1]],
        [$outcome->outcome, $outcome->error['type'] ?? null, $outcome->checkpoints[0]['cursors'] ?? null]);
});
test('a key that is null or no JSON is an error before its row is done', function (): void {
    foreach ([null, NAN, "\xff", fopen('php://memory', 'r')] as $key) {
        $done = 0;
        $outcome = workerWith(function (Job $job) use ($key, &$done): void {
            foreach ($job->iterate([1], fn () => $key) as $row) {
                $done++;
            }
        })->perform('t');
        Tests::same(['WrongUse', false, 0], [$outcome->error['type'], $outcome->error['retryable'], $done]);
    }
});
