<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests;

/** A test is a sentence and a function that throws when the sentence is not true. */
final class Tests
{
    /** @var array<string, \Closure> */
    public static array $all = [];

    public static function same(mixed $expected, mixed $got, string $about = ''): void
    {
        if ($expected !== $got) {
            throw new \AssertionError(trim("$about expected " . var_export($expected, true) . ', got '
                . var_export($got, true)));
        }
    }

    public static function has(string $needle, string $text): void
    {
        if (!str_contains($text, $needle)) {
            throw new \AssertionError("expected \"$needle\" in: $text");
        }
    }

    public static function throws(string $class, \Closure $call): \Throwable
    {
        try {
            $call();
        } catch (\Throwable $error) {
            self::same($class, $error::class, $error->getMessage());
            return $error;
        }
        throw new \AssertionError("expected $class, and nothing was thrown");
    }
}

function test(string $sentence, \Closure $function): void
{
    Tests::$all[$sentence] = $function;
}

/** A test with a worker under a FakeInit. */
function socketTest(string $sentence, string $code, \Closure $function, array $hello = []): void
{
    test($sentence, static function () use ($code, $function, $hello): void {
        $init = new FakeInit($code, $hello);
        try {
            $function($init);
        } finally {
            $init->close();
        }
    });
}
