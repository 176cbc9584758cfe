<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests\Library;

use Ojs\Worker\Worker;
use PHPUnit\Framework\TestCase;

/** The code in the README works. */
final class ReadmeTest extends TestCase
{
    /** @return list<string> */
    private static function blocks(): array
    {
        preg_match_all('/^```php\n(.*?)^```$/ms', file_get_contents(__DIR__ . '/../../README.md'), $match);
        return $match[1];
    }

    public function testEachBlockIsPhp(): void
    {
        foreach (self::blocks() as $block) {
            self::assertNotEmpty(token_get_all("<?php\n$block", TOKEN_PARSE));
        }
    }

    public function testTheFirstWorkerAndTheTestOfIt(): void
    {
        $blocks = self::blocks();
        $worker = (static function (string $code): Worker {
            eval(str_replace('$worker->run();', '', $code));
            return $worker;
        })($blocks[0]);
        self::assertSame([0.5, 1.0], array_column($worker->perform('report.build', [2])->progress, 'progress'));
        eval($blocks[3]);
        self::assertSame('fail', $outcome->outcome);
    }
}
