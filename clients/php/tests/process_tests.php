<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests;

$slow = <<<'PHP'
$worker = new Worker(stopGrace: 0.5);
$worker->job('busy', function (Job $job): void { for ($end = microtime(true) + 60; microtime(true) < $end;) { hash('md5', 'x'); } });
$worker->job('sleep', function (Job $job): void { sleep(60); $job->throwIfCancelled(); });
$worker->job('echo', fn (Job $job): array => $job->args);
$worker->job('pid', fn (): int => getmypid());
$worker->job('exit', fn () => exit(3));
$worker->job('killed', fn () => posix_kill(getmypid(), SIGKILL));
$worker->job('fork', function (Job $job): string { if (pcntl_fork() === 0) { return 'child'; } pcntl_wait($status); return 'parent'; });
$worker->job('stop', fn () => $worker->stop());
$worker->job('program', function (): void { exec('setsid sleep 30 >/dev/null 2>&1 </dev/null & echo $! > ' . getenv('FOLDER') . '/daemon'); exit(1); });
$worker->run();
file_put_contents(getenv('FOLDER') . '/after', (string) getmypid());
PHP;

socketTest('a test whose worker is gone ends with what the worker said, and does not write for ever',
    'fwrite(STDERR, "no more"); fgets(stream_socket_client("unix://" . getenv("OJS_SOCKET")));', function (FakeInit $init): void {
        Tests::same(0, $init->status());
        $error = Tests::throws(\AssertionError::class, function () use ($init): void {
            for ($i = 0; $i < 1000; $i++) {
                $init->job("$i", 'pid', [str_repeat('x', 10_000)]);
            }
        });
        Tests::has('no more', $error->getMessage());
    });
socketTest('a ping is answered while every handler is busy', $slow, function (FakeInit $init): void {
    $init->frame('ready');
    $init->job('1', 'busy');
    $init->job('2', 'busy');
    $init->send(['type' => 'ping', 'id' => 7]);
    Tests::same(['type' => 'pong', 'id' => 7], $init->frame());
});
socketTest('a cancel ends a sleep', $slow, function (FakeInit $init): void {
    $init->frame('ready');
    $init->job('1', 'sleep');
    $start = microtime(true);
    $init->send(['type' => 'cancel', 'job_id' => '1', 'reason' => 'timeout', 'grace_ms' => 30_000]);
    Tests::same('timeout', $init->frame()['error']['code']);
    Tests::same(true, microtime(true) - $start < 15);
});
socketTest('a handler that does not end after its cancel costs its own process only', $slow, function (FakeInit $init): void {
    $init->frame('ready');
    $init->job('1', 'busy');
    $init->send(['type' => 'cancel', 'job_id' => '1', 'reason' => 'timeout', 'grace_ms' => 500]);
    Tests::same(['timeout', true], [($e = $init->frame('fail')['error'])['code'], $e['retryable']]);
    $init->job('2', 'echo', ['still here']);
    Tests::same(['still here'], $init->frame('ack')['result']);
});
socketTest('a process that dies fails its job, retryable, and is replaced', $slow, function (FakeInit $init): void {
    $init->frame('ready');
    foreach (['exit' => 'ended with status 3', 'killed' => 'was ended by signal 9'] as $type => $how) {
        $init->job($type, $type);
        $error = $init->frame('fail')['error'];
        Tests::same(['worker_death', true], [$error['code'], $error['retryable']]);
        Tests::has($how, $error['message']);
    }
    foreach (['a', 'b'] as $id) {
        $init->job($id, 'echo', [$id]);
        Tests::same([$id], $init->frame('ack')['result']);
    }
});
socketTest('a handler that comes back in a fork of its process is answered once', $slow, function (FakeInit $init): void {
    $init->frame('ready');
    $init->job('1', 'fork');
    Tests::same('parent', $init->frame()['result']);
    $init->send(['type' => 'ping', 'id' => 1]);
    Tests::same('pong', $init->frame()['type']);
});
socketTest('a program that a handler leaves behind does not hide the end of its process', $slow, function (FakeInit $init): void {
    $init->frame('ready');
    $init->job('1', 'program');
    Tests::same('worker_death', $init->frame('fail')['error']['code']);
    posix_kill($init->pidFrom('daemon'), SIGKILL);
});
socketTest('after terminate run returns, a late SIGTERM is ignored, and the status is 0', $slow . 'sleep(1);',
    function (FakeInit $init): void {
        $init->frame('ready');
        $init->send(['type' => 'lifecycle', 'state' => 'terminate', 'reason' => 'sigterm', 'remaining_ms' => 5000]);
        posix_kill($init->pidFrom('after'), SIGTERM);
        Tests::same(0, $init->status());
    });
socketTest('SIGTERM with a job that does not end is status 143, within its grace', $slow, function (FakeInit $init): void {
    $init->frame('ready');
    $init->job('1', 'busy');
    $init->job('2', 'pid');
    $pid = $init->frame('ack')['result'];
    posix_kill($init->pid(), SIGTERM);
    Tests::same(143, $init->status());
    Tests::same(false, posix_kill($pid, 0), 'a process is left;');
});
socketTest('when the connection closes the worker and its processes end, whatever handlers do', $slow,
    function (FakeInit $init): void {
        $init->frame('ready');
        $init->job('1', 'pid');
        $pid = $init->frame('ack')['result'];
        $init->job('2', 'busy');
        $init->hangUp();
        Tests::same(true, $init->status() !== 0);
        Tests::same(false, posix_kill($pid, 0), 'a process is left;');
    });
socketTest('when the first process is killed the others end', $slow, function (FakeInit $init): void {
    $init->frame('ready');
    $init->job('1', 'pid');
    $pid = $init->frame('ack')['result'];
    posix_kill($init->pid(), SIGKILL);
    $until = microtime(true) + 10;
    while (posix_kill($pid, 0) && !str_contains((string) @file_get_contents("/proc/$pid/stat"), ') Z ')) {
        Tests::same(true, microtime(true) < $until, 'the process lives on;');
        usleep(5_000);
    }
});
socketTest('stop in a handler ends the worker when its jobs are done', $slow, function (FakeInit $init): void {
    $init->frame('ready');
    $init->job('1', 'stop');
    Tests::same(0, $init->frame('ready')['concurrency']);
    Tests::same(0, $init->status());
});
socketTest('a program can stop its worker from the handler of a signal', <<<'PHP'
    $worker = new Worker(handleSignals: false);
    $worker->job('n', fn () => null);
    pcntl_async_signals(true);
    pcntl_signal(SIGALRM, fn () => $worker->stop());
    pcntl_alarm(1);
    $worker->run();
    PHP, function (FakeInit $init): void {
        Tests::same(0, $init->status());
    });
socketTest('what onProcessStart throws is logged, ends that process alone, and it is tried again', <<<'PHP'
    $worker = new Worker();
    $worker->job('n', fn () => 1);
    $worker->onProcessStart(function (): void {
        $file = getenv('FOLDER') . '/tries';
        file_put_contents($file, '.', FILE_APPEND | LOCK_EX);
        filesize($file) > 3 ?: throw new RuntimeException('no database');
    });
    try {
        $worker->run();
    } finally {
        file_put_contents(getenv('FOLDER') . '/ends', '.', FILE_APPEND);
    }
    PHP, function (FakeInit $init): void {
        $init->frame('ready');
        $init->job('1', 'n');
        Tests::same(1, $init->frame('ack')['result']);
        Tests::has('no database', $init->err());
        Tests::same(false, is_file($init->folder() . '/ends'));
    });
socketTest('a job without a type is one without a handler', '$worker = new Worker(); $worker->job("*", fn () => 1); $worker->run();',
    function (FakeInit $init): void {
        $init->frame('ready');
        $init->send(['type' => 'job', 'job' => ['id' => '1', 'args' => []]]);
        Tests::same(['handler_not_found', true], [($e = $init->frame()['error'])['code'], $e['retryable']]);
        $init->job('2', 'any');
        Tests::same(1, $init->frame('ack')['result']);
    });
socketTest('a stop that a process asks for while it has no job is heard', <<<'PHP'
    $worker = new Worker();
    $worker->job('pid', fn (): int => getmypid());
    $worker->onProcessStart(fn () => pcntl_signal(SIGUSR1, fn () => $worker->stop()));
    $worker->run();
    PHP, function (FakeInit $init): void {
        $init->frame('ready');
        $init->job('1', 'pid');
        posix_kill($init->frame('ack')['result'], SIGUSR1);
        Tests::same(0, $init->frame('ready')['concurrency']);
        Tests::same(0, $init->status());
    });
socketTest('a terminate that comes together with the hello is heard', <<<'PHP'
    $worker = new Worker();
    $worker->job('n', fn () => 1);
    $worker->run();
    PHP, function (FakeInit $init): void {
        $init->send(['type' => 'lifecycle', 'state' => 'terminate', 'remaining_ms' => 1000]);
        Tests::same(0, $init->status());
    });
$count = <<<'PHP'
$worker = new Worker();
$worker->job('n', function (Job $job): int { file_put_contents(getenv('FOLDER') . '/done', $job->id . "\n", FILE_APPEND | LOCK_EX); return getmypid(); });
$worker->run(maxJobs: 3);
PHP;
socketTest('of 600 jobs in processes of 3 jobs each none is lost and none is done twice', $count,
    function (FakeInit $init): void {
        $init->frame('ready');
        $given = 0;
        $pids = [];
        for ($answered = 0; $answered < 600;) {
            while ($given < 600 && $given - $answered < 4) {
                $init->job('j' . $given++, 'n');
            }
            $frame = $init->frame('ack');
            $answered++;
            $pids[$frame['result']] = true;
        }
        $done = file($init->folder() . '/done', FILE_IGNORE_NEW_LINES);
        Tests::same([600, 600], [count($done), count(array_unique($done))]);
        Tests::same(true, count($pids) > 20, count($pids) . ' processes;');
    }, ['concurrency' => 4]);
socketTest('while processes are replaced there are never fewer of them, and at most twice as many', $count,
    function (FakeInit $init): void {
        $init->frame('ready');
        $children = "/proc/{$init->pid()}/task/{$init->pid()}/children";
        for ($i = 0; $i < 60; $i++) {
            $init->job("j$i", 'n');
            $init->frame('ack');
            $count = count(explode(' ', trim((string) file_get_contents($children))));
            Tests::same(true, $count >= 4 && $count <= 8, "$count processes;");
        }
    }, ['concurrency' => 4]);
$heavy = <<<'PHP'
$worker = new Worker();
$worker->job('pid', fn (): int => getmypid());
$worker->run(processes: 1, maxMemory: '1M');
PHP;
socketTest('a limit of memory that is too low from the start is warned of once, and makes no loop', $heavy,
    function (FakeInit $init): void {
        $init->frame('ready');
        $pids = [];
        for ($i = 0; $i < 12; $i++) {
            $init->job("$i", 'pid');
            $pids[] = $init->frame('ack')['result'];
        }
        Tests::same(1, count(array_unique(array_slice($pids, 0, 10))));
        Tests::same(1, substr_count($init->err(), 'before its first job'));
    });
