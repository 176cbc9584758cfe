<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests\Monolog;

use Monolog\Handler\TestHandler;
use Monolog\Logger;
use Ojs\Worker\Job;
use Ojs\Worker\Monolog\JobProcessor;
use Ojs\Worker\Worker;
use PHPUnit\Framework\TestCase;

require_once 'Monolog/autoload.php';

final class MonologTest extends TestCase
{
    public function testEachRecordOfAHandlerAndOfTheLibraryNamesTheJob(): void
    {
        $records = new TestHandler();
        $log = new Logger('app', [$records], [new JobProcessor()]);
        $worker = (new Worker(log: $log))->job('t', function (Job $job) use ($log): void {
            $log->info('inside');
            throw new \DomainException('x');
        });
        $log->info('outside');
        $worker->perform('t', id: 'j');
        [$outside, $inside, $failed] = $records->getRecords();
        self::assertSame([], $outside['extra']);
        self::assertSame(['j', 'j'], [$inside['extra']['ojs']['job_id'], $failed['extra']['ojs']['job_id']]);
        self::assertInstanceOf(\DomainException::class, $failed['context']['exception']);
    }
}
