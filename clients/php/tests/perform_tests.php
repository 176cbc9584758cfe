<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests;

use Ojs\Worker\BigInteger;
use Ojs\Worker\CheckpointTooLarge;
use Ojs\Worker\Discard;
use Ojs\Worker\Job;
use Ojs\Worker\Json;
use Ojs\Worker\JsonLine;
use Ojs\Worker\Logger;
use Ojs\Worker\Release;
use Ojs\Worker\Retry;
use Ojs\Worker\Worker;

/** A worker with this handler for "t", that logs to a stream which is thrown away. */
function workerWith(callable $handler): Worker
{
    return (new Worker(log: new Logger('json', stream: fopen('php://memory', 'w'))))->job('t', $handler);
}

test('a result goes through JSON', function (): void {
    $outcome = workerWith(fn (int $a, int $b): array => ['sum' => $a + $b])->perform('t', [1, 2]);
    Tests::same('ack', $outcome->outcome);
    Tests::same(['sum' => 3], $outcome->result);
});
test('any error fails the job, retryable, with its class, message and backtrace', function (): void {
    $error = workerWith(fn () => throw new \DomainException('broken'))->perform('t')->error;
    Tests::same(['handler_error', true, 'DomainException', 'broken'],
        [$error['code'], $error['retryable'], $error['type'], $error['message']]);
    Tests::has('perform_tests.php', $error['backtrace'][0]);
});
test('Retry says when in whole milliseconds, Discard is for good, Release gives back', function (): void {
    $error = workerWith(fn () => throw new Retry('later', after: 1.5, code: 'x_busy'))->perform('t')->error;
    Tests::same([1500, 'x_busy', true], [$error['details']['retry_after_ms'], $error['code'], $error['retryable']]);
    Tests::same(false, workerWith(fn () => throw new Discard('no'))->perform('t')->error['retryable']);
    $outcome = workerWith(fn () => throw new Release('not mine'))->perform('t');
    Tests::same(['release', 'not mine'], [$outcome->outcome, $outcome->reason]);
});
test('a result that is no JSON fails for good', function (): void {
    $deep = [];
    for ($i = 0; $i < 100; $i++) {
        $deep = [$deep];
    }
    $circle = new \stdClass();
    $circle->self = $circle;
    foreach ([NAN, INF, "\xff", $deep, $circle, fopen('php://memory', 'r'), new \DateTimeZone('UTC')] as $bad) {
        $error = workerWith(fn (): mixed => $bad)->perform('t')->error;
        Tests::same([false, 'InvalidResult'], [$error['retryable'], $error['type']]);
        Tests::same(0, strpos($error['message'], "the handler's result is not JSON"));
    }
});
test('arguments that do not fit the declared parameters fail for good, and are named', function (): void {
    $worker = workerWith(fn (Job $job, string $to, float $share, ?int $count = null): array => [$to, $share, $count]);
    Tests::same(['a', 1.0, null], $worker->perform('t', ['a', 1])->result);
    foreach ([[['a'], '$share'], [[1, 2], '$to'], [['a', 1, 'x'], '$count']] as [$args, $name]) {
        $error = $worker->perform('t', $args)->error;
        Tests::same([false, 'InvalidArgs'], [$error['retryable'], $error['type']]);
        Tests::has($name, $error['message']);
    }
});
test('middleware stands around the handler in its order, and one job sees nothing of another', function (): void {
    $worker = workerWith(fn (Job $job): array => $job->context);
    foreach (['outer', 'inner'] as $name) {
        $worker->middleware(function (Job $job, callable $next) use ($name): mixed {
            $job->context[] = $name;
            return [...$next(), "after $name"];
        });
    }
    for ($i = 0; $i < 2; $i++) {
        Tests::same(['outer', 'inner', 'after inner', 'after outer'], $worker->perform('t')->result);
    }
});
test('a type without a handler fails with handler_not_found', function (): void {
    Tests::same('handler_not_found', workerWith(fn () => null)->perform('other')->error['code']);
});
test('a timeout cancels, and fails with the code timeout', function (): void {
    $outcome = workerWith(function (Job $job): void {
        $job->waitCancelled(10);
        $job->throwIfCancelled();
    })->perform('t', timeoutMs: 30);
    Tests::same('timeout', $outcome->error['code']);
});
test('rows go on behind the last one that was finished, and are given back when the time is over', function (): void {
    $worker = workerWith(function (Job $job): array {
        $done = [];
        foreach ($job->iterate(range(0, 9)) as $row) {
            if ($row === 3 && $job->lastCheckpoint === null && $job->context === []) {
                $job->waitStopping(1);
            }
            $done[] = $row;
        }
        return $done;
    });
    $first = $worker->perform('t', stopping: 0.2, stoppingAfter: 0.05);
    Tests::same(['release', 'resumes at its checkpoint'], [$first->outcome, $first->reason]);
    $last = $first->checkpoints[array_key_last($first->checkpoints)];
    Tests::same(['ojs_resume' => 1, 'steps' => [], 'cursors' => ['' => 3], 'state' => null], $last);
    Tests::same([4, 5, 6, 7, 8, 9], $worker->perform('t', checkpoint: $last)->result);
});
test('the position is saved before a job fails or is given back in the middle of its rows', function (): void {
    $saved = ['ojs_resume' => 1, 'steps' => [], 'cursors' => ['' => 2], 'state' => null];
    foreach ([new \RuntimeException('broken'), new Release('later')] as $end) {
        $outcome = workerWith(function (Job $job) use ($end): void {
            foreach ($job->iterate(range(0, 3)) as $row) {
                if ($row === 1) {
                    Tests::throws(CheckpointTooLarge::class, fn () => $job->checkpoint(str_repeat('x', 70_000)));
                }
                if ($row === 3) {
                    throw $end;
                }
            }
        })->perform('t');
        Tests::same([$saved], $outcome->checkpoints, $end::class);
    }
});
test('a handler that swallows the end of its rows is given back all the same', function (): void {
    $outcome = workerWith(function (Job $job): string {
        try {
            foreach ($job->iterate(range(0, 9)) as $row) {
                $job->waitStopping(1);
            }
        } catch (Release) {
        }
        return 'all done';
    })->perform('t', stopping: 0.2, stoppingAfter: 0.05);
    Tests::same(['release', 'resumes at its checkpoint'], [$outcome->outcome, $outcome->reason]);
    Tests::same(['' => 0], $outcome->checkpoints[0]['cursors']);
});
test('an index that a backend spells 1.0 is an index, and two loops in one place are an error', function (): void {
    $worker = workerWith(fn (Job $job) => iterator_to_array($job->iterate(range(0, 3)), false));
    $saved = ['ojs_resume' => 1, 'steps' => [], 'cursors' => ['' => 1.0], 'state' => null];
    Tests::same([2, 3], $worker->perform('t', checkpoint: $saved)->result);
    $twice = workerWith(fn (Job $job) => [...$job->iterate([1]), ...$job->iterate([2])]);
    Tests::same('WrongUse', $twice->perform('t')->error['type']);
});
test('another step than the one in which rows are open is StepsChanged', function (): void {
    $worker = workerWith(fn (Job $job) => $job->step('other', fn () => 1));
    $saved = ['ojs_resume' => 1, 'steps' => [], 'cursors' => ['import' => 3], 'state' => null];
    Tests::same('StepsChanged', $worker->perform('t', checkpoint: $saved)->error['type']);
});
test('a key that is not among the rows any more is StepsChanged', function (): void {
    $worker = workerWith(fn (Job $job) => iterator_to_array($job->iterate([['id' => 1]], fn (array $row) => $row['id'])));
    $saved = ['ojs_resume' => 1, 'steps' => [], 'cursors' => ['' => 7], 'state' => null];
    $error = $worker->perform('t', checkpoint: $saved)->error;
    Tests::same([false, 'StepsChanged'], [$error['retryable'], $error['type']]);
});
test('rows may come from a function that gets the position', function (): void {
    $worker = workerWith(fn (Job $job) => iterator_to_array(
        $job->iterate(fn (?int $from) => range(($from ?? -1) + 1, 4)),
        false,
    ));
    $saved = ['ojs_resume' => 1, 'steps' => [], 'cursors' => ['' => 2], 'state' => null];
    Tests::same([3, 4], $worker->perform('t', checkpoint: $saved)->result);
    Tests::same([0, 1, 2, 3, 4], $worker->perform('t')->result);
});
test('a finished step is not done again, and its result is kept', function (): void {
    $ran = [];
    $worker = workerWith(function (Job $job) use (&$ran): array {
        $results = [];
        foreach (['a', 'b'] as $name) {
            $results[] = $job->step($name, function (string $n) use (&$ran): string {
                $ran[] = $n;
                return strtoupper($n);
            }, $name);
        }
        return $results;
    });
    $first = $worker->perform('t');
    Tests::same([['a', 'A'], ['b', 'B']], $first->checkpoints[1]['steps']);
    $ran = [];
    Tests::same(['A', 'B'], $worker->perform('t', checkpoint: $first->checkpoints[0])->result);
    Tests::same(['b'], $ran);
    $error = $worker->perform('t', checkpoint: ['steps' => [['z', 1]]] + $first->checkpoints[0])->error;
    Tests::same('StepsChanged', $error['type']);
    Tests::has('z', $error['message']);
});
test("the program's own checkpoint lives beside steps, and alone it is saved as it is", function (): void {
    $worker = workerWith(function (Job $job): mixed {
        $job->checkpoint(['page' => 1]);
        $job->step('a', fn () => 1);
        return $job->lastCheckpoint;
    });
    $outcome = $worker->perform('t');
    Tests::same(['page' => 1], $outcome->checkpoints[0]);
    Tests::same(['page' => 1], $outcome->checkpoints[1]['state']);
    Tests::same(['page' => 1], $worker->perform('t', checkpoint: $outcome->checkpoints[1])->result);
});
test('more than 64 KiB of steps fail for good', function (): void {
    $error = workerWith(fn (Job $job) => $job->step('a', fn () => str_repeat('x', 70_000)))->perform('t')->error;
    Tests::same([false, 'CheckpointTooLarge'], [$error['retryable'], $error['type']]);
});
test('a line that is logged in a handler names the job and its trace', function (): void {
    $trace = str_repeat('ab', 16);
    $line = null;
    workerWith(function () use (&$line): void {
        $line = json_decode(JsonLine::format('info', 'hello {who}', ['who' => 'world']), true);
    })->perform('t', meta: ['traceparent' => "00-$trace-00f067aa0ba902b7-01"], id: 'j1');
    Tests::same(['hello world', 'INFO', 'worker', 'handler'],
        [$line['message'], $line['severity'], $line['category'], $line['component']]);
    Tests::same(['job_id' => 'j1', 'job_type' => 't', 'queue' => 'default', 'attempt' => 1], $line['ojs']);
    Tests::same(['trace_id' => $trace, 'span_id' => '00f067aa0ba902b7'], $line['trace']);
    Tests::same(false, isset(json_decode(JsonLine::format('info', 'x'), true)['ojs']));
});
function deepException(int $depth): \Exception
{
    return $depth === 0 ? new \LogicException('deep') : deepException($depth - 1);
}

test('what a program gives to a line is in its attributes, as far as JSON takes it', function (): void {
    $cause = new \RuntimeException('the cause');
    $context = [
        'order' => 7, 'paid' => true, 'at' => new \DateTimeImmutable('2026-01-02'), 'tags' => ['a', 'b'], 'bad' => NAN,
        'open' => fopen('php://memory', 'r'), 'long' => str_repeat('x', 2000), 'exception' => new \LogicException('no', 0, $cause),
        "\0odd" => 1, 'odd' => ['n' => ["\0x" => 1]],
    ];
    $text = JsonLine::format('error', 'order {order}', $context);
    $line = json_decode($text, true);
    Tests::same(['order', 'paid', 'at', 'tags'], array_keys($line['attributes']));
    Tests::same([7, true, ['a', 'b']],
        [$line['attributes']['order'], $line['attributes']['paid'], $line['attributes']['tags']]);
    Tests::has('perform_tests.php', $line['error']['stack']);
    Tests::has('caused by RuntimeException: the cause', $line['error']['stack']);
    $many = array_fill_keys(range('a', 'z'), str_repeat('y', 900));
    $many['exception'] = new \LogicException(str_repeat("\x01", 2000), 0, deepException(60));
    $line = JsonLine::format('error', str_repeat("\x01", 2000), $many);
    Tests::same(true, strlen($line) < 4096);
    Tests::same(['a'], array_keys(json_decode($line, true)['attributes'] ?: ['a' => 1]));
    $line = json_decode(JsonLine::format('error', 'x', [...$many, 'exception' => deepException(60)]), true);
    Tests::same(true, isset($line['attributes']['a']) && substr_count($line['error']['stack'], "\n") > 10);
    $names = array_fill_keys(array_map(fn (int $i) => "attribute_$i", range(1, 600)), 1);
    $line = json_decode(JsonLine::format('error', 'x', [...$names, 'exception' => deepException(60)]), true);
    Tests::same(true, count($line['attributes']) > 20 && substr_count($line['error']['stack'], "\n") > 10);
    $odd = str_repeat("\x01", 200);
    $line = null;
    workerWith(fn () => null)->job($odd, function () use (&$line, $cause): void {
        $line = JsonLine::format('error', 'x', ['exception' => $cause]);
    })->perform($odd, queue: $odd, id: $odd, meta: ['trace_id' => $odd]);
    Tests::same(true, strlen($line) < 4096 && json_decode($line) !== null);
    $bad = new class {
        public function __toString(): string
        {
            throw new \RuntimeException('no text');
        }
    };
    $line = json_decode(JsonLine::format('info', 'it is {it}', ['it' => $bad, 'exception' => 'a text']), true);
    Tests::same(['it is {it}', ['exception' => 'a text']], [$line['message'], $line['attributes']]);
    Tests::has('"attributes":{}', JsonLine::format('info', 'x'));
});
test('meta.log_level sets the level for that job alone', function (): void {
    $stream = fopen('php://memory', 'w+');
    $log = new Logger('json', 'info', $stream);
    $worker = (new Worker(log: $log))->job('t', fn () => $log->debug('detail'));
    $worker->perform('t', meta: ['log_level' => 'debug']);
    $worker->perform('t');
    rewind($stream);
    Tests::same(1, substr_count((string) stream_get_contents($stream), 'detail'));
});
test('an option that is not known is named, with those that are', function (): void {
    foreach ([fn () => new Worker(concurency: 2), fn () => workerWith(fn () => null)->run(maxjobs: 2)] as $call) {
        $message = Tests::throws(\InvalidArgumentException::class, $call)->getMessage();
        Tests::has('unknown option', $message);
        Tests::has(str_contains($message, 'concurency') ? 'there are concurrency' : 'maxJobs', $message);
    }
});
test('without ojs-init, run says how to start the program', function (): void {
    putenv('OJS_SOCKET');
    $error = Tests::throws(\Ojs\Worker\NotUnderOjsInit::class, fn () => workerWith(fn () => null)->run());
    Tests::has('ojs-init -- php', $error->getMessage());
});
test('a development server takes jobs, and says so when it is not there', function (): void {
    $named = getenv('OJS_DEVSERVER');
    putenv('OJS_DEVSERVER=/nowhere/ojs-devserver');
    $error = Tests::throws(\Ojs\Worker\Testing\DevServerMissing::class, fn () => new \Ojs\Worker\Testing\DevServer());
    Tests::has('OJS_DEVSERVER', $error->getMessage());
    putenv($named === false ? 'OJS_DEVSERVER' : "OJS_DEVSERVER=$named");
    if (\Ojs\Worker\Testing\DevServer::program() !== null) {
        $server = new \Ojs\Worker\Testing\DevServer();
        $id = $server->enqueue('t', [1]);
        Tests::same(['available', [1]], [$server->job($id)['state'], $server->job($id)['args']]);
        $server->close();
    }
});

test('a whole number of any size stays one beside an object that encodes a result of its own', function (): void {
    $inner = new class implements \JsonSerializable {
        public function jsonSerialize(): string
        {
            return Json::encode(['n' => new BigInteger('98765432109876543210')]);
        }
    };
    $text = Json::encode([new BigInteger('12345678901234567890'), $inner, new BigInteger('-12345678901234567890')]);
    Tests::same('[12345678901234567890,"{\\"n\\":98765432109876543210}",-12345678901234567890]', $text);
});
