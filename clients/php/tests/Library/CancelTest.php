<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests\Library;

use Ojs\Worker\Job;
use Ojs\Worker\Tests\FakeInit;
use Ojs\Worker\Worker;
use PHPUnit\Framework\TestCase;

/** A handler whose job is cancelled is never done by accident. */
final class CancelTest extends TestCase
{
    private ?FakeInit $init = null;

    protected function tearDown(): void
    {
        $this->init?->close();
    }

    public static function waits(): array
    {
        return [
            'the job\'s sleep' => ['$job->sleep(60);'],
            'sleep' => ['sleep(60);'],
            'usleep' => ['usleep(60_000_000);'],
            'time_nanosleep' => ['time_nanosleep(60, 0);'],
            'stream_select' => ['$pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); $r = [$pair[0]];'
                . '$n = null; @stream_select($r, $n, $n, 60);'],
            'a lock' => ['$f = fopen(__FILE__, "r"); $g = fopen(__FILE__, "r"); flock($f, LOCK_EX); flock($g, LOCK_EX);'],
            'waitStopping' => ['$job->waitStopping();'],
            'a loop' => ['for ($i = 0; true; $i++) { $i %= 1000; }'],
            'what restarts by itself' => ['shell_exec("sleep 0.5");'],
            'a wait that the handler wraps' => ['try { sleep(60); } catch (Throwable $e) { throw new Exception("x", 0, $e); }'],
            'a wait that catches exceptions' => ['try { sleep(60); } catch (Exception) { }'],
        ];
    }

    /** @dataProvider waits */
    public function testACancelEndsAWaitAndTheJobIsNotDone(string $wait): void
    {
        $this->init = new FakeInit("\$worker->job('w', function (Job \$job) { note('begun'); $wait note('behind'); return 'done'; });");
        $this->init->job('1', 'w');
        $this->init->noted('begun');
        $this->init->cancel('1', 'timeout');
        $answer = $this->init->answer();
        self::assertSame(['fail', 'timeout', true],
            [$answer['type'], $answer['error']['code'] ?? null, $answer['error']['retryable'] ?? null]);
        self::assertFalse($this->init->hasNoted('behind'));
    }

    public function testACancelBehindTheEndOfTheHandlerIsTooLate(): void
    {
        $session = new \Ojs\Worker\TestSession(null, 0.0, []);
        $job = new Job($session, ['id' => '1', 'type' => 't', 'args' => []], null);
        $job->finish();
        $session->cancelReason = 'shutdown';
        $job->interrupt();
        self::assertTrue($job->isTold);
    }

    public function testACancelForAShutdownGivesTheJobBackAfterItsCleanup(): void
    {
        $this->init = new FakeInit(<<<'PHP'
            $worker->job('w', function (Job $job) {
                try { note('begun'); sleep(60); } finally { $job->checkpoint(['at' => 7]); usleep(300_000); note('clean'); }
            });
            PHP);
        $this->init->job('1', 'w');
        $this->init->noted('begun');
        $this->init->cancel('1', 'shutdown');
        $this->init->cancel('1', 'shutdown');
        self::assertSame(['at' => 7], $this->init->frame('checkpoint')['state']);
        self::assertSame(['type' => 'release', 'job_id' => '1', 'reason' => 'shutdown'], $this->init->answer());
        self::assertTrue($this->init->hasNoted('clean'));
    }

    public function testAHandlerThatAsksIsNotInterrupted(): void
    {
        $this->init = new FakeInit(<<<'PHP'
            $worker->job('w', function (Job $job) {
                for ($i = 0; !$job->isCancelled(); $i++) { note('begun'); usleep(2_000); }
                usleep(100_000);
                return 'as far as ' . $job->cancelReason();
            });
            PHP);
        $this->init->job('1', 'w');
        $this->init->noted('begun');
        $this->init->cancel('1', 'shutdown');
        self::assertSame('as far as shutdown', $this->init->answer()['result']);
    }

    public function testAHandlerThatAskedOnceAndThenWaitsIsNotDone(): void
    {
        $this->init = new FakeInit(<<<'PHP'
            $worker->job('w', function (Job $job) { $job->isCancelled(); note('begun'); sleep(60); return 'done'; });
            PHP);
        $this->init->job('1', 'w');
        $this->init->noted('begun');
        $this->init->cancel('1', 'shutdown');
        self::assertSame('release', $this->init->answer()['type']);
    }

    public function testTheNextJobOfTheProcessKnowsNothingOfTheCancel(): void
    {
        $this->init = new FakeInit(<<<'PHP'
            $worker->job('w', function (Job $job) { note('begun'); sleep(60); });
            $worker->job('next', fn (Job $job): array => [getmypid(), $job->isCancelled()]);
            PHP);
        $pid = $this->init->job('1', 'w');
        $this->init->noted('begun');
        $this->init->cancel('1', 'cancelled');
        $this->init->answer();
        $this->init->job('1', 'next');
        self::assertSame([$pid, false], $this->init->answer()['result']);
    }

    public static function inTests(): array
    {
        return [
            'sleep of the job' => [fn (Job $job) => $job->sleep(5.0)],
            'progress afterwards' => [function (Job $job): void {
                usleep(60_000);
                $job->progress(1.0);
                throw new \LogicException('not here');
            }],
            'a plain wait' => [fn () => usleep(60_000)],
        ];
    }

    /** @dataProvider inTests */
    public function testPerformIsJustAsStrict(\Closure $handler): void
    {
        $worker = (new Worker())->job('w', $handler);
        self::assertSame('shutdown', $worker->perform('w', cancel: 'shutdown', cancelAfter: 0.05)->reason);
        self::assertSame('timeout', $worker->perform('w', timeout: 0.05)->error['code']);
    }

    public function testWaitCancelledSaysWhetherItIs(): void
    {
        $worker = (new Worker())->job('w', fn (Job $job): array => [$job->waitCancelled(0.01), $job->waitCancelled(5.0)]);
        self::assertSame([false, true], $worker->perform('w', cancel: 'lost', cancelAfter: 0.05)->result);
    }
}
