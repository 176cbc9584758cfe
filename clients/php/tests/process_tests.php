<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests;

$slow = <<<'PHP'
$worker = new Worker(stopGrace: 0.5);
$begin = fn (Job $job) => file_put_contents(getenv('FOLDER') . "/begun-{$job->id}", (string) getmypid());
$worker->middleware(function (Job $job, callable $next) use ($begin): mixed { $begin($job); return $next(); });
$worker->job('busy', function (Job $job): void { for ($end = microtime(true) + 60; microtime(true) < $end;) { hash('md5', 'x'); } });
$worker->job('sleep', function (Job $job): void { sleep(60); $job->throwIfCancelled(); });
$worker->job('echo', fn (Job $job): array => $job->args);
$worker->job('pid', fn (): int => getmypid());
$worker->job('exit', fn () => exit(3));
$worker->job('killed', fn () => posix_kill(getmypid(), SIGKILL));
$worker->job('fork', function (Job $job): string { if (pcntl_fork() === 0) { return 'child'; } pcntl_wait($status); return 'parent'; });
$worker->job('stop', fn () => $worker->stop());
$worker->job('until stopping', fn (Job $job): string => $job->waitStopping(30) ? 'stopping' : 'not');
$worker->job('program', function (): void { exec('setsid sleep 30 >/dev/null 2>&1 </dev/null & echo $! > ' . getenv('FOLDER') . '/daemon'); exit(1); });
$worker->run();
file_put_contents(getenv('FOLDER') . '/after', (string) getmypid());
PHP;

socketTest('a test whose worker is gone ends with what the worker said, and does not write for ever',
    'fwrite(STDERR, "no more"); fgets(stream_socket_client("unix://" . getenv("OJS_SOCKET")));', function (FakeInit $init): void {
        Tests::same(0, $init->status());
        $error = Tests::throws(\AssertionError::class, function () use ($init): void {
            for ($i = 0; $i < 1000; $i++) {
                $init->send(['type' => 'x', 'more' => str_repeat('x', 10_000)]);
            }
        });
        Tests::has('no more', $error->getMessage());
    });
socketTest('each process has a connection of its own, which takes one job, and the first process takes none', $slow,
    function (FakeInit $init): void {
        for ($i = 0; $i < 5; $i++) {
            $ready = $init->frame('ready');
            Tests::same([1, false, true], [$ready['concurrency'], $ready['ok'], $ready['cancel_signal']]);
            Tests::same(false, isset($ready['ping']));
        }
        Tests::same(6, $init->connections());
        $init->job('1', 'pid');
        Tests::same(true, $init->holder('1') !== $init->pid());
        Tests::same($init->holder('1'), $init->frame('ack')['result']);
    }, ['concurrency' => 5]);
socketTest('a ping is answered by each process that has nothing to do', $slow, function (FakeInit $init): void {
    $init->frame('ready');
    $init->frame('ready');
    $init->send(['type' => 'ping', 'id' => 7]);
    for ($i = 0; $i < 3; $i++) {
        Tests::same(['type' => 'pong', 'id' => 7], $init->frame());
    }
});
socketTest('a cancel ends a sleep', $slow, function (FakeInit $init): void {
    $init->job('1', 'sleep');
    $init->pidFrom('begun-1');
    usleep(100_000);
    $start = microtime(true);
    $init->cancel('1', 'timeout');
    Tests::same('timeout', $init->frame()['error']['code']);
    Tests::same(true, microtime(true) - $start < 15);
});
socketTest('a handler that does not end after its cancel loses its process alone to a SIGTERM', $slow, function (FakeInit $init): void {
    $init->job('1', 'busy');
    $pid = $init->pidFrom('begun-1');
    $init->cancel('1', 'timeout');
    // It has half a second for its answer, from when it has heard of the cancel.
    $init->until(function () use ($pid): bool {
        usleep(100_000);
        return !posix_kill($pid, SIGTERM);
    }, 'the process goes on');
    Tests::same('1', $init->frame('died')['job_id']);
    foreach (['2', '3'] as $id) {
        $init->job($id, 'pid');
        Tests::same(true, $init->frame('ack')['result'] !== $pid);
    }
});
socketTest('a SIGTERM for one process cancels its job, and it is replaced when that is answered', $slow, function (FakeInit $init): void {
    $init->job('1', 'sleep');
    $pid = $init->pidFrom('begun-1');
    usleep(100_000);
    posix_kill($pid, SIGTERM);
    Tests::same(['1', 'shutdown'], [($frame = $init->frame('release'))['job_id'], $frame['reason']]);
    $init->frameWhere(fn (array $frame): bool => ($frame['concurrency'] ?? null) === 0, 'no pause');
    foreach (['2', '3'] as $id) {
        $init->job($id, 'pid');
    }
    $init->frame('ack');
    $init->frame('ack');
});
socketTest('a process that dies is replaced, and its end is in the log', $slow, function (FakeInit $init): void {
    foreach (['exit' => 'ended with status 3', 'killed' => 'was ended by signal 9'] as $type => $how) {
        $init->job($type, $type);
        Tests::same($type, $init->frame('died')['job_id']);
        $init->errHas($how);
    }
    foreach (['a', 'b'] as $id) {
        $init->job($id, 'echo', [$id]);
        Tests::same([$id], $init->frame('ack')['result']);
    }
});
socketTest('a process whose connection is closed cancels its job, ends, and is replaced; the others go on', $slow,
    function (FakeInit $init): void {
        $init->job('1', 'sleep');
        $pid = $init->pidFrom('begun-1');
        usleep(100_000);
        $init->hangUpOn('1');
        posix_kill($pid, SIGTERM);
        $init->errHas("process $pid ended with status 1");
        foreach (['a', 'b'] as $id) {
            $init->job($id, 'pid');
            Tests::same(true, $init->frame('ack')['result'] !== $pid);
        }
    });
socketTest('a handler that comes back in a fork of its process is answered once', $slow, function (FakeInit $init): void {
    $init->job('1', 'fork');
    Tests::same('parent', $init->frame('ack')['result']);
    $init->send(['type' => 'ping', 'id' => 1]);
    Tests::same('pong', $init->frame()['type']);
});
socketTest('a program that a handler leaves behind does not hide the end of its process', $slow, function (FakeInit $init): void {
    $init->job('1', 'program');
    $init->errHas('ended with status 1');
    posix_kill($init->pidFrom('daemon'), SIGKILL);
});
socketTest('after terminate run returns, a late SIGTERM is ignored, and the status is 0', $slow . 'sleep(1);',
    function (FakeInit $init): void {
            $init->send(['type' => 'lifecycle', 'state' => 'terminate', 'reason' => 'sigterm', 'remaining_ms' => 5000]);
        posix_kill($init->pidFrom('after'), SIGTERM);
        Tests::same(0, $init->status());
    });
socketTest('SIGTERM with a job that does not end is status 143, within its grace', $slow, function (FakeInit $init): void {
    $init->job('1', 'busy');
    $init->job('2', 'pid');
    $pid = $init->frame('ack')['result'];
    posix_kill($init->pid(), SIGTERM);
    Tests::same(143, $init->status());
    Tests::same(false, posix_kill($pid, 0), 'a process is left;');
});
socketTest('when the connection closes the worker and its processes end, whatever handlers do', $slow,
    function (FakeInit $init): void {
            $init->job('1', 'pid');
        $pid = $init->frame('ack')['result'];
        $init->job('2', 'busy');
        $init->hangUp();
        Tests::same(true, $init->status() !== 0);
        Tests::same(false, posix_kill($pid, 0), 'a process is left;');
    });
socketTest('when the first process is killed the others end', $slow, function (FakeInit $init): void {
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
    $init->job('1', 'stop');
    $init->frameWhere(fn (array $frame): bool => ($frame['concurrency'] ?? null) === 0, 'no pause');
    Tests::same(0, $init->status());
});
socketTest('stop tells the handlers that run, which may finish', $slow, function (FakeInit $init): void {
    $init->job('1', 'until stopping');
    $init->pidFrom('begun-1');
    $init->job('2', 'stop');
    Tests::same('stopping', $init->frameWhere(fn (array $frame): bool => ($frame['job_id'] ?? null) === '1', 'no answer')['result']);
    Tests::same(0, $init->status());
});
socketTest('a process that prepares itself is ended with the others', <<<'PHP'
    $worker = new Worker();
    $worker->job('n', fn () => 1);
    $worker->onProcessStart(function (): void {
        file_put_contents(getenv('FOLDER') . '/pid', (string) getmypid());
        for ($end = microtime(true) + 60; microtime(true) < $end;) { usleep(1000); }
    });
    $worker->run();
    PHP, function (FakeInit $init): void {
        $pid = $init->pidFrom('pid');
        posix_kill($init->pid(), SIGTERM);
        Tests::same(0, $init->status());
        Tests::same(false, posix_kill($pid, 0), 'a process is left;');
        Tests::same('', $init->err());
    });
socketTest('a job that comes together with the end is given back and not begun', <<<'PHP'
    $worker = new Worker(stopGrace: 10.0);
    $worker->job('pid', fn (): int => getmypid());
    $worker->job('note', fn (): int => file_put_contents(getenv('FOLDER') . '/begun', 'x'));
    $worker->run();
    PHP, function (FakeInit $init): void {
        $init->job('1', 'pid');
        $pid = $init->frame('ack')['result'];
        posix_kill($pid, SIGSTOP);
        $init->until(fn (): bool => str_contains((string) file_get_contents("/proc/$pid/stat"), ') T '), 'the process is not stopped');
        $init->job('2', 'note');
        posix_kill($init->pid(), SIGTERM);
        // Longer than the first process may take to look and to tell the others: it has no other sign of that.
        usleep(600_000);
        posix_kill($pid, SIGCONT);
        Tests::same(['2', 'shutdown'], [($frame = $init->frame('release'))['job_id'], $frame['reason']]);
        Tests::same(0, $init->status());
        Tests::same(false, is_file($init->folder() . '/begun'));
    }, ['concurrency' => 1]);
socketTest('what a signal handler of the program throws between two jobs ends its process alone', <<<'PHP'
    $worker = new Worker();
    $worker->job('n', function (): int {
        pcntl_signal(SIGALRM, fn () => throw new RuntimeException('too late'));
        pcntl_alarm(1);
        return getmypid();
    });
    $worker->job('pid', fn (): int => getmypid());
    try {
        $worker->run();
    } finally {
        file_put_contents(getenv('FOLDER') . '/behind run', (string) getmypid());
    }
    PHP, function (FakeInit $init): void {
        $init->job('1', 'n');
        $pid = $init->frame('ack')['result'];
        $init->errHas('too late');
        $init->errHas("process $pid ended with status 1");
        Tests::same(false, is_file($init->folder() . '/behind run'));
        $init->job('2', 'pid');
        Tests::same(true, $init->frame('ack')['result'] !== $pid);
    }, ['concurrency' => 1]);
socketTest('onProcessStart that forks and comes back in both makes one process', <<<'PHP'
    $worker = new Worker();
    $worker->onProcessStart(function (): void { pcntl_fork() === 0 && file_put_contents(getenv('FOLDER') . '/fork', (string) getmypid()); });
    $worker->job('n', fn () => 1);
    $worker->run();
    PHP, function (FakeInit $init): void {
        $init->pidFrom('fork');
        $init->job('1', 'n');
        $init->frame('ack');
        usleep(100_000);
        Tests::same([1, 2], [$init->capacity(), $init->connections()]);
    }, ['concurrency' => 1]);
socketTest('a connection that closes ends the wait for handlers that have all the time', <<<'PHP'
    $worker = new Worker(stopGrace: null);
    $worker->job('deaf', function (): void {
        file_put_contents(getenv('FOLDER') . '/begun', (string) getmypid());
        while (true) { sleep(60); }
    });
    $worker->run();
    PHP, function (FakeInit $init): void {
        $init->job('1', 'deaf');
        $init->pidFrom('begun');
        posix_kill($init->pid(), SIGTERM);
        usleep(400_000);
        $init->hangUp();
        Tests::same(255, $init->status());
        Tests::has('has closed the connection', $init->err());
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
            $init->job('1', 'n');
        Tests::same(1, $init->frame('ack')['result']);
        Tests::has('no database', $init->err());
        Tests::same(false, is_file($init->folder() . '/ends'));
    });
socketTest('a job without a type is one without a handler', '$worker = new Worker(); $worker->job("*", fn () => 1); $worker->run();',
    function (FakeInit $init): void {
            $init->give(['type' => 'job', 'job' => ['id' => '1', 'args' => []]]);
        Tests::same(['handler_not_found', true], [($e = $init->frame('fail')['error'])['code'], $e['retryable']]);
        $init->job('2', 'any');
        Tests::same(1, $init->frame('ack')['result']);
    });
socketTest('a stop that a process asks for while it has no job is heard', <<<'PHP'
    $worker = new Worker();
    $worker->job('pid', fn (): int => getmypid());
    $worker->onProcessStart(fn () => pcntl_signal(SIGUSR1, fn () => $worker->stop()));
    $worker->run();
    PHP, function (FakeInit $init): void {
            $init->job('1', 'pid');
        posix_kill($init->frame('ack')['result'], SIGUSR1);
        $init->frameWhere(fn (array $frame): bool => ($frame['concurrency'] ?? null) === 0, 'no pause');
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
$worker->job('n', function (Job $job): int { file_put_contents(getenv('FOLDER') . '/done', $job->id . "\n", FILE_APPEND | LOCK_EX); usleep(3000); return getmypid(); });
$worker->run(maxJobs: 3);
PHP;
socketTest('of 600 jobs in processes of 3 jobs each none is lost and none is done twice', $count,
    function (FakeInit $init): void {
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
socketTest('while processes are replaced ojs-init never has fewer of them, and at most twice as many', $count,
    function (FakeInit $init): void {
        for ($i = 0; $i < 4; $i++) {
            $init->frame('ready');
        }
        for ($i = 0; $i < 60; $i++) {
            $init->job("j$i", 'n');
            $init->frame('ack');
            Tests::same(true, $init->capacity() >= 4, $init->capacity() . ' ready;');
            Tests::same(true, $init->connections() - 1 <= 8, $init->connections() . ' connections;');
        }
    }, ['concurrency' => 4]);
$heavy = <<<'PHP'
$worker = new Worker();
$worker->job('pid', fn (): int => getmypid());
$worker->run(processes: 1, maxMemory: '1M');
PHP;
socketTest('a limit of memory that is too low from the start is warned of once, and makes no loop', $heavy,
    function (FakeInit $init): void {
            $pids = [];
        for ($i = 0; $i < 12; $i++) {
            $init->job("$i", 'pid');
            $pids[] = $init->frame('ack')['result'];
        }
        Tests::same(1, count(array_unique(array_slice($pids, 0, 10))));
        $init->errHas('before its first job');
        Tests::same(1, substr_count($init->err(), 'before its first job'));
    });
