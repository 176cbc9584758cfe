<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests\Library;

use Ojs\Worker\Tests\FakeInit;
use PHPUnit\Framework\TestCase;

/** The processes of a worker: when they start, take jobs, and end. */
final class ProcessTest extends TestCase
{
    private const CODE = <<<'PHP'
        $worker->job('pid', fn () => getmypid());
        $worker->job('exit', fn () => exit(3));
        $worker->job('slow', function (Job $job) {
            $start = microtime(true);
            note("begun-{$job->id}");
            $job->sleep(0.5);
            return microtime(true) - $start >= 0.5 ? 'slow' : 'cut short';
        });
        $worker->job('deaf', function (Job $job) {
            note("begun-{$job->id}");
            while (true) { try { sleep(60); } catch (Throwable) { } }
        });
        $worker->job('clean', function (Job $job) {
            try { note("begun-{$job->id}"); sleep(60); } catch (Cancelled $c) { note("told-{$c->reason}"); throw $c; }
        });
        $worker->job('fork', fn () => pcntl_fork() === 0 ? 'child' : 'parent');
        $worker->job('stop', fn () => $worker->stop());
        $worker->job('stopping', function (Job $job) { note('waits'); return $job->waitStopping(); });
        PHP;
    private ?FakeInit $init = null;

    protected function tearDown(): void
    {
        $this->init?->close();
    }

    private function start(string $code = self::CODE, int $concurrency = 1): FakeInit
    {
        return $this->init = new FakeInit($code, $concurrency);
    }

    private static function assertGone(int $pid): void
    {
        for ($i = 0; $i < 200 && posix_kill($pid, 0); $i++) {
            usleep(10_000);
        }
        self::assertFalse(posix_kill($pid, 0), "process $pid is left");
    }

    public function testEachProcessSaysThatItTakesOneJobAndTheFirstOneSaysNothing(): void
    {
        $init = $this->start(concurrency: 3);
        for ($i = 0; $i < 3; $i++) {
            $ready = $init->frame('ready', 'pong');
            self::assertSame([1, 1, false, true],
                [$ready['protocol'], $ready['concurrency'], $ready['ok'], $ready['cancel_signal']]);
        }
        self::assertSame(4, $init->connections());
        $init->send(['type' => 'ping', 'id' => 7]);
        for ($i = 0; $i < 4; $i++) {
            self::assertSame(7, $init->frame('pong', 'ready')['id']);
        }
    }

    public function testAProcessThatDiesCostsItsOwnJobAndIsReplaced(): void
    {
        $init = $this->start();
        $pid = $init->job('1', 'exit');
        self::assertSame('died', $init->answer()['type']);
        $init->job('2', 'pid');
        self::assertNotSame($pid, $init->answer()['result']);
        self::assertStringContainsString("process $pid exited with status 3", $init->err());
    }

    public function testTheNextStartsOfProcessesThatDieYoungComeAtPauses(): void
    {
        $init = $this->startsComeAtPauses('throw new Exception("no db")', 1);
        self::assertStringContainsString('no db', $init->err());
    }

    public function testAProgramThatEndsWithSuccessAtItsStartIsNotStartedWithoutPause(): void
    {
        $this->startsComeAtPauses('exit(0)', 0);
    }

    /** Starts a worker whose processes end like this at their start, and ends it. */
    private function startsComeAtPauses(string $end, int $status): FakeInit
    {
        $init = $this->start('$worker->job("n", fn () => 1); $worker->onProcessStart(fn () => ' . $end . ');');
        $starts = fn (): int => substr_count($init->err(), "exited with status $status");
        $init->until(fn (): bool => $starts() >= 3, 'three starts');
        $times = $starts();
        usleep(300_000);
        self::assertLessThanOrEqual($times + 1, $starts());
        posix_kill($init->pid(), SIGTERM);
        self::assertSame(0, $init->status());
        return $init;
    }

    public function testSigtermOfTheFirstProcessLetsHandlersFinish(): void
    {
        $init = $this->start(concurrency: 2);
        $init->job('1', 'slow');
        $init->noted('begun-1');
        posix_kill($init->pid(), SIGTERM);
        $init->until(fn (): bool => $init->connections() === 2, 'the end of the idle process');
        self::assertSame('slow', $init->answer()['result']);
        self::assertSame(0, $init->status());
        self::assertSame($init->pid(), $init->noted('returned'));
        self::assertSame('', $init->err());
    }

    public function testSigtermOfAllProcessesLetsHandlersFinishAndNoneTakesAJob(): void
    {
        $init = $this->start();
        $pid = $init->job('1', 'slow');
        $init->noted('begun-1');
        $init->frame('ready');
        posix_kill($pid, SIGTERM);
        posix_kill($init->pid(), SIGTERM);
        self::assertSame(0, $init->frame('ready')['concurrency']);
        self::assertSame('slow', $init->answer()['result']);
        self::assertSame(0, $init->status());
    }

    public function testAJobThatWasOnItsWayAtSigtermIsDone(): void
    {
        $init = $this->start();
        $init->job('1', 'pid');
        $pid = $init->answer()['result'];
        posix_kill($pid, SIGSTOP);
        $init->job('2', 'pid');
        posix_kill($pid, SIGTERM);
        posix_kill($pid, SIGCONT);
        self::assertSame($pid, $init->answer()['result']);
    }

    public function testTerminateTellsHandlersThatTheWorkerStopsAlsoAfterASigterm(): void
    {
        $init = $this->start();
        $init->job('1', 'stopping');
        posix_kill($init->noted('waits'), SIGTERM);
        $init->send(['type' => 'lifecycle', 'state' => 'terminate', 'reason' => 'sigterm', 'remaining_ms' => 60000]);
        self::assertTrue($init->answer()['result']);
    }

    public function testTerminateEndsTheWorkerAndALateSigtermIsIgnored(): void
    {
        $init = $this->start(self::CODE . ' register_shutdown_function(fn () => usleep(100_000));');
        $init->job('1', 'pid');
        $init->answer();
        $init->send(['type' => 'lifecycle', 'state' => 'terminate', 'reason' => 'sigterm', 'remaining_ms' => 5000]);
        posix_kill($init->noted('returned'), SIGTERM);
        self::assertSame(0, $init->status());
    }

    public function testSigtermWhileAProcessPreparesItselfEndsIt(): void
    {
        $init = $this->start('$worker->job("n", fn () => 1); $worker->onProcessStart(function () { note("starts"); sleep(60); });');
        $pid = $init->noted('starts');
        posix_kill($init->pid(), SIGTERM);
        self::assertSame(0, $init->status());
        self::assertGone($pid);
    }

    public function testTheEndOfOjsInitCancelsHandlersAndEndsProcessesThatHang(): void
    {
        $init = $this->start(concurrency: 2);
        $pids = [$init->job('1', 'clean'), $init->job('2', 'deaf')];
        $init->noted('begun-1');
        $init->noted('begun-2');
        $start = microtime(true);
        $init->hangUp();
        self::assertSame(1, $init->status());
        self::assertLessThan(3.0, microtime(true) - $start);
        self::assertTrue($init->hasNoted('told-lost'));
        array_map(self::assertGone(...), $pids);
    }

    public function testTheEndOfOjsInitWithoutJobsIsStatus0(): void
    {
        $init = $this->start();
        $init->frame('ready');
        $init->hangUp();
        self::assertSame(0, $init->status());
    }

    public function testAHandlerThatForksAndReturnsInBothProcessesIsAnsweredOnce(): void
    {
        $init = $this->start();
        $init->job('1', 'fork');
        self::assertSame('parent', $init->answer()['result']);
        $init->job('2', 'pid');
        self::assertSame('2', $init->answer()['job_id']);
    }

    public function testStopInAHandlerEndsTheWorkerAfterItsJobs(): void
    {
        $init = $this->start();
        $init->job('1', 'stop');
        self::assertSame('ack', $init->answer()['type']);
        self::assertSame(0, $init->status());
    }

    public function testAnErrorHandlerOfTheProgramSeesNothingOfTheSocket(): void
    {
        $init = $this->start('set_error_handler(fn () => throw new ErrorException("a warning"));' . self::CODE);
        $init->job('1', 'clean');
        $init->noted('begun-1');
        $init->cancel('1', 'shutdown');
        self::assertSame('release', $init->answer()['type']);
        $init->job('2', 'pid');
        $init->answer();
        $init->hangUp();
        self::assertSame(0, $init->status());
        self::assertSame('', $init->err());
    }

    public function testAnErrorHandlerOfTheProgramStillWorksInItsHandlers(): void
    {
        $init = $this->start('set_error_handler(fn ($n, $text) => throw new ErrorException($text));'
            . '$worker->job("w", fn () => [][7]);');
        $init->job('1', 'w');
        self::assertSame('ErrorException', $init->answer()['error']['type']);
    }

    public function testAWorkerWithoutALogGoesOn(): void
    {
        $init = $this->start('fclose(STDERR); $worker->job("bad", fn () => throw new Exception("x"));' . self::CODE);
        $init->job('1', 'bad');
        self::assertSame('fail', $init->answer()['type']);
        $init->job('2', 'pid');
        self::assertSame('ack', $init->answer()['type']);
    }

    public function testAJobThatPhpCannotReadFails(): void
    {
        $init = $this->start();
        $init->frame('ready');
        $init->sendRaw('{"type":"job","job_id":"odd","job":{"id":"odd","type":"pid","args":["\ud800"]}}');
        self::assertSame(['odd', 'UnreadableJob'], [($frame = $init->answer())['job_id'], $frame['error']['type']]);
    }

    public function testAHandlerThatSaysMoreThanAnybodyReadsDoesNotHang(): void
    {
        $init = $this->start('$worker->job("w", function (Job $job) { note("begun");
            for ($i = 0; $i < 3000; $i++) { $job->progress(0.5, str_repeat("x", 1000)); } return "all"; });');
        $init->job('1', 'w');
        $init->noted('begun');
        self::assertSame('all', $init->answer()['result']);
    }
}
