<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests;

use Ojs\Worker\Discard;
use Ojs\Worker\Job;
use Ojs\Worker\Json;
use Ojs\Worker\Logger;
use Ojs\Worker\OjsError;
use Ojs\Worker\Release;
use Ojs\Worker\Retry;
use Ojs\Worker\StepsChanged;
use Ojs\Worker\Testing\DevServer;
use Ojs\Worker\Testing\DevServerMissing;
use Ojs\Worker\Testing\HandlerHangs;
use Ojs\Worker\Worker;

socketTest('a checkpoint or progress that is too long for ojs-init is refused and not sent', <<<'PHP'
    $worker = new Worker();
    $worker->job('t', function (Job $job): string {
        $long = str_repeat('x', 200_000);
        foreach ([fn () => $job->checkpoint($long), fn () => $job->progress(0.5, data: $long)] as $call) {
            try {
                $call();
                return 'nothing was raised';
            } catch (LengthException $error) {
                str_contains($error->getMessage(), '65536') || throw $error;
            }
        }
        $job->checkpoint('short');
        return 'refused';
    });
    $worker->run();
    PHP, function (FakeInit $init): void {
        $init->job('1', 't');
        Tests::same('short', $init->frame()['state']);
        Tests::same('refused', $init->frame()['result']);
    }, ['max_frame' => 65_536, 'concurrency' => 1]);
test('perform refuses what is too long for ojs-init', function (): void {
    $outcome = workerWith(fn (Job $job) => $job->checkpoint(str_repeat('x', 5_000_000)))->perform('t');
    Tests::same(['LengthException', []], [$outcome->error['type'], $outcome->checkpoints]);
});
test('the id of a job that cannot be read is found behind any text', function (): void {
    foreach (['\\n', '\\"', '\\\\', 'x', '{"id":1}'] as $piece) {
        $text = $piece[0] === '{' ? '[' . substr(str_repeat("$piece,", 100_000), 0, -1) . ']'
            : '"' . str_repeat($piece, 1_000_000) . '"';
        Tests::same('j1', Json::salvageJobId('{"type":"job","job":{"args":[' . $text . ',"\ud800"],"id":"j1","type":"t"}}'), $piece);
    }
    foreach (['{"type":"job","job":{"id":"\ud800"}}', '{"type":"job","job":{"id":"j1', '{"type":"job","job":{"args":["\\', '{"job":["id"]}',
        '{"type":"job","args":{"id":"j1"}}', '', '"', ']]]{'] as $none) {
        Tests::same(null, Json::salvageJobId($none), $none);
    }
});
socketTest('a job that cannot be read is answered also behind a long text', <<<'PHP'
    $worker = new Worker();
    $worker->job('t', fn () => 1);
    $worker->run();
    PHP, function (FakeInit $init): void {
        $init->giveText('{"type":"job","job":{"args":["' . str_repeat('\\"', 1_000_000) . '","\ud800"],"id":"j1","type":"t"}}');
        Tests::same(['j1', 'UnreadableJob'], [($frame = $init->frame('fail'))['job_id'], $frame['error']['type']]);
    }, ['concurrency' => 1]);

final class BareDiscard extends Discard
{
    public function __construct()
    {
    }
}

final class BareRelease extends Release
{
    public function __construct()
    {
    }
}

test('an error of which no answer can be made fails its job, and is in the log', function (): void {
    foreach ([[new BareDiscard(), false], [new BareRelease(), true]] as [$error, $isRetryable]) {
        $stream = fopen('php://memory', 'w+');
        $worker = (new Worker(log: new Logger('json', stream: $stream)))->job('t', fn () => throw $error);
        $outcome = $worker->perform('t');
        Tests::same(['fail', 'handler_error', $isRetryable],
            [$outcome->outcome, $outcome->error['code'], $outcome->error['retryable']]);
        Tests::has($error::class, $outcome->error['message']);
        rewind($stream);
        Tests::has('the answer cannot be made', (string) stream_get_contents($stream));
    }
});
test('a test of a handler within a handler leaves the log with the outer job', function (): void {
    $lines = [];
    $worker = workerWith(function (Job $job) use (&$worker, &$lines): void {
        $worker->perform('inner', id: 'inner');
        $lines[] = Logger::currentJob()?->id;
    });
    $worker->job('inner', function () use (&$lines): void {
        $lines[] = Logger::currentJob()?->id;
    });
    $worker->perform('t', id: 'outer');
    Tests::same(['inner', 'outer', null], [...$lines, Logger::currentJob()]);
});
test('the stack of an error that nobody meant is in the log, in both formats', function (): void {
    foreach (['json', 'text'] as $format) {
        $stream = fopen('php://memory', 'w+');
        $worker = (new Worker(log: new Logger($format, stream: $stream)))->job('t', fn () => brokenCall());
        $worker->perform('t', id: 'j1');
        rewind($stream);
        $log = (string) stream_get_contents($stream);
        Tests::has('j1', $log);
        Tests::has('it is broken', $log);
        Tests::has('worker_tests.php', $log);
        Tests::has('brokenCall', $log);
    }
});

test('a failure in the words of the handler is no line, and one with a cause or of the library is', function (): void {
    foreach ([
        [new Discard('no such user'), false], [new Retry('later', previous: new \LogicException('why')), true],
        [new StepsChanged('other steps'), true],
    ] as [$error, $isLogged]) {
        $stream = fopen('php://memory', 'w+');
        (new Worker(log: new Logger(stream: $stream)))->job('t', fn () => throw $error)->perform('t');
        rewind($stream);
        Tests::same($isLogged, str_contains((string) stream_get_contents($stream), 'failed'), $error::class);
    }
});

function brokenCall(): never
{
    throw new \DomainException('it is broken');
}

socketTest('a handler sees the state that ojs-init has told', <<<'PHP'
    $worker = new Worker();
    $worker->job('t', fn (Job $job): array => [$worker->state(), $job->waitStopping(20), $worker->state()]);
    $worker->run();
    PHP, function (FakeInit $init): void {
        $init->job('1', 't');
        $init->send(['type' => 'lifecycle', 'state' => 'terminate', 'reason' => 'sigterm', 'remaining_ms' => 5000]);
        [$first, $isStopping, $state] = $init->frame('ack')['result'];
        Tests::same([true, true, 'terminate'], [in_array($first, ['running', 'terminate'], true), $isStopping, $state]);
    }, ['concurrency' => 1]);
socketTest('a stop before run is not forgotten', <<<'PHP'
    $worker = new Worker();
    $worker->job('t', fn () => 1);
    $worker->stop();
    $worker->run();
    PHP, function (FakeInit $init): void {
        Tests::same(0, $init->status());
    });
socketTest('each process has random numbers of its own', <<<'PHP'
    mt_srand(7);
    $worker = new Worker();
    $worker->job('t', function (Job $job): array {
        touch(getenv('FOLDER') . "/begun-{$job->id}");
        while (count(glob(getenv('FOLDER') . '/begun-*')) < 4) { usleep(1000); }
        return [mt_rand(), rand()];
    });
    $worker->run();
    PHP, function (FakeInit $init): void {
        foreach (['1', '2', '3', '4'] as $id) {
            $init->job($id, 't');
        }
        $numbers = [];
        for ($i = 0; $i < 4; $i++) {
            $numbers = [...$numbers, ...$init->frame('ack')['result']];
        }
        Tests::same(count($numbers), count(array_unique($numbers)));
    }, ['concurrency' => 4]);
test('perform gives up on a handler that hangs, also where the handler catches that', function (): void {
    $before = fn () => throw new \LogicException('the alarm of the program');
    pcntl_signal(SIGALRM, $before);
    $loops = [
        fn () => sleep(60),
        function (): void { for ($end = microtime(true) + 60; microtime(true) < $end;) { hash('md5', 'x'); } },
        fn (Job $job) => $job->waitCancelled(60),
        function (): void { while (true) { try { sleep(60); } catch (\Throwable $caught) { if (($count = ($count ?? 0) + 1) > 1) { return; } } } },
    ];
    foreach ($loops as $loop) {
        $start = microtime(true);
        $error = Tests::throws(HandlerHangs::class, fn () => workerWith($loop)->perform('t', patience: 1.0));
        Tests::has('the handler of t has not ended after 1 s', $error->getMessage());
        Tests::same(true, microtime(true) - $start < 30);
    }
    Tests::same($before, pcntl_signal_get_handler(SIGALRM));
    pcntl_signal(SIGALRM, SIG_DFL);
    Tests::same('ack', workerWith(fn () => null)->perform('t', patience: 1.0)->outcome);
    Tests::same(0, pcntl_alarm(0));
});
test('the timeout of a job in a test is given in seconds, as its cancel is', function (): void {
    $worker = workerWith(function (Job $job): array {
        $left = (float) $job->deadline->format('U.u') - microtime(true);
        $job->waitCancelled(20);
        return [$left <= 0.1, $job->cancelReason()];
    });
    Tests::same([true, 'timeout'], $worker->perform('t', timeout: 0.05)->result);
    Tests::same([true, 'timeout'], $worker->perform('t', timeoutMs: 50)->result);
});
test('a development server that is not there has an error of its own', function (): void {
    $named = getenv('OJS_DEVSERVER');
    putenv('OJS_DEVSERVER=/nowhere/ojs-devserver');
    $error = Tests::throws(DevServerMissing::class, fn () => new DevServer());
    Tests::same(true, $error instanceof OjsError);
    Tests::has('cargo build -p ojs-devserver', $error->getMessage());
    putenv($named === false ? 'OJS_DEVSERVER' : "OJS_DEVSERVER=$named");
});
