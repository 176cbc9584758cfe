<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests\Library;

use Ojs\Worker\Job;
use Ojs\Worker\Worker;
use PHPUnit\Framework\TestCase;

enum Color: string
{
    case Red = 'red';
}

enum Level: int
{
    case High = 3;
}

final class Address
{
    public function __construct(public readonly string $street, public readonly int $number = 1, public readonly ?Color $door = null)
    {
    }
}

final class Tree
{
    public function __construct(public readonly string $name, public readonly ?Tree $child = null)
    {}
}

final class Greeter
{
    public function __construct(private readonly string $word = 'hello')
    {
    }

    public function __invoke(string $name): string
    {
        return "{$this->word} $name";
    }

    public function part(Job $job, string $name): string
    {
        return "{$job->type} $name";
    }
}

/** What a handler may look like, and what becomes of a job's arguments. */
final class HandlerTest extends TestCase
{
    public static function fitting(): array
    {
        return [
            'one by one' => [fn (string $a, int $b, float $c, bool $d, array $e, mixed $f): array => [$a, $b, $c, $d, $e, $f],
                ['a', 2, 3, true, [1], null], ['a', 2, 3.0, true, [1], null]],
            'defaults and null' => [fn (?string $a, int $b = 5): array => [$a, $b], [null], [null, 5]],
            'the job wherever it stands' => [fn (string $a, Job $job, int $b): array => [$job->type, $a, $b], ['x', 1], ['t', 'x', 1]],
            'the job alone, untyped' => [fn ($job): array => $job->args, [1, 'b'], [1, 'b']],
            'a union' => [fn (int|string $a, int|string $b): array => [$a, $b], ['1', 1], ['1', 1]],
            'many' => [fn (string $a, int ...$more): array => [$a, $more], ['x', 1, 2, 3], ['x', [1, 2, 3]]],
            'a whole number in another spelling' => [fn (int $a): int => $a, [2.0], 2],
            'enums' => [fn (Color $a, Level $b): array => [$a->name, $b->name], ['red', 3], ['Red', 'High']],
            'an object' => [fn (Address $a): array => [$a->street, $a->number, $a->door],
                [['street' => 'x', 'door' => 'red', 'unknown' => 1]], ['x', 1, 'red']],
            'an object in an object of its class' => [fn (Tree $a): string => $a->child->child->name,
                [['name' => 'a', 'child' => ['name' => 'b', 'child' => ['name' => 'c']]]], 'c'],
            'beyond 64 bits' => [fn (int|\Ojs\Worker\BigInteger $a): string => (string) $a,
                [new \Ojs\Worker\BigInteger('123456789012345678901')], '123456789012345678901'],
        ];
    }

    /** @dataProvider fitting */
    public function testArgumentsThatFit(\Closure $handler, array $args, mixed $result): void
    {
        self::assertSame($result, (new Worker())->job('t', $handler)->perform('t', $args)->result);
    }

    public static function unfit(): array
    {
        return [
            [fn (string $to) => 1, [], 'args: 1 expected, 0 came'],
            [fn (string $to, int $n = 1) => 1, ['a', 1, 2], 'args: 1 to 2 expected, 3 came'],
            [fn () => 1, ['a'], 'args: 0 expected, 1 came'],
            [fn (string $to) => 1, [5], 'args[0] ($to): string expected, int came'],
            [fn (int $n) => 1, ['5'], 'args[0] ($n): int expected, string came'],
            [fn (int $n) => 1, [2.5], 'args[0] ($n): int expected, float came'],
            [fn (?int $n) => 1, [['a' => 1]], 'args[0] ($n): int|null expected, object came'],
            [fn (bool $a, string ...$more) => 1, [true, 'x', null], 'args[2] ($more): string expected, null came'],
            [fn (Color $c) => 1, ['blue'], 'args[0] ($c): ' . Color::class . ' expected, string came'],
            [fn (Level $c) => 1, ['3'], 'args[0] ($c): ' . Level::class . ' expected, string came'],
            [fn (Address $a) => 1, [[1]], 'args[0] ($a): ' . Address::class . ' expected, array came'],
            [fn (Address $a) => 1, [['number' => 1]], 'args[0].street is missing'],
            [fn (Address $a) => 1, [['street' => 'x', 'number' => 'y']], 'args[0].number ($number): int expected, string came'],
        ];
    }

    /** @dataProvider unfit */
    public function testArgumentsThatDoNotFitFailTheJobForGood(\Closure $handler, array $args, string $message): void
    {
        $error = (new Worker(log: new \Ojs\Worker\Tests\RecordingLogger()))->job('t', $handler)->perform('t', $args)->error;
        self::assertSame(['retryable' => false, 'code' => 'invalid_args', 'type' => 'InvalidArgs', 'message' => $message], $error);
    }

    public static function impossible(): array
    {
        return [
            [fn (\DateTimeImmutable $at) => 1, 'its parameter $at is of type DateTimeImmutable, which JSON does not have'],
            [fn (\Countable $c) => 1, 'its parameter $c is of type Countable, which JSON does not have'],
            [fn ($to, $body) => 1, 'its first parameter $to has no type: write Job $to for the job'],
            [function (string $to) { yield $to; }, 'it has `yield` in it'],
            ['no such thing', 'it is neither callable nor a class with that method'],
            [[Greeter::class, 'absent'], 'it is neither callable nor a class with that method'],
            [self::class, 'it is neither callable nor a class with that method'],
        ];
    }

    /** @dataProvider impossible */
    public function testAHandlerThatCannotWorkIsRefusedWithOneThatWould(mixed $handler, string $why): void
    {
        $this->expectException(\InvalidArgumentException::class);
        $this->expectExceptionMessageMatches('/^the handler of t cannot work: ' . preg_quote($why, '/')
            . '.*A handler looks like: function \(Job \$job, string \$to/');
        (new Worker())->job('t', $handler);
    }

    public function testAClassIsMadeByTheContainerOnceItHasAJob(): void
    {
        $container = new class {
            public int $made = 0;

            public function get(string $id): object
            {
                $this->made++;
                return new $id('good day');
            }
        };
        $worker = (new Worker(container: $container))->job('t', Greeter::class)->job('p', [Greeter::class, 'part']);
        self::assertSame(0, $container->made);
        self::assertSame(['good day Ann', 'good day Bob'], [$worker->perform('t', ['Ann'])->result, $worker->perform('t', ['Bob'])->result]);
        self::assertSame('p Cy', $worker->perform('p', ['Cy'])->result);
        self::assertSame(2, $container->made);
    }

    public function testAClassWithoutAContainer(): void
    {
        self::assertSame('hello Ann', (new Worker())->job('t', Greeter::class)->perform('t', ['Ann'])->result);
        self::assertSame('hi Ann', (new Worker())->job('t', new Greeter('hi'))->perform('t', ['Ann'])->result);
    }

    public function testASecondHandlerOfATypeIsRefused(): void
    {
        $this->expectExceptionMessage('t has a handler already');
        (new Worker())->job(['s', 't'], fn () => 1)->job('t', fn () => 2);
    }

    public function testTheHandlerOfAllOtherTypes(): void
    {
        $worker = (new Worker())->job('a', fn () => 'a')->job('*', fn (Job $job) => $job->type);
        self::assertSame(['a', 'b'], [$worker->perform('a')->result, $worker->perform('b')->result]);
    }

    public function testUnknownOptionsNameThoseThatExist(): void
    {
        $this->expectExceptionMessage('unknown option: stopGrace; the options are concurrency, log, container');
        new Worker(stopGrace: 1.0);
    }
}
