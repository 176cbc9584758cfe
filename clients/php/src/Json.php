<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * JSON as it travels over the worker socket.
 *
 * @internal
 */
final class Json
{
    /** Nesting of a frame, the frame itself included: the protocol's limit. */
    private const WRITE_DEPTH = 100;
    private const READ_DEPTH = 1024;
    private const FLAGS = JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION;

    private const STRICT = JSON_THROW_ON_ERROR;
    public const LENIENT = JSON_INVALID_UTF8_SUBSTITUTE | JSON_PARTIAL_OUTPUT_ON_ERROR;

    /** How many BigIntegers the running `encode` has met; null outside of it. */
    private static ?int $bigIntegers = null;
    private static ?string $mark = null;

    /**
     * Objects become arrays. Integers beyond 64 bits become BigInteger.
     *
     * @throws \JsonException
     */
    public static function decode(string $text): mixed
    {
        $value = json_decode($text, true, self::READ_DEPTH, JSON_THROW_ON_ERROR);
        if (preg_match('/\d{19}/', $text) === 1) {
            $flags = JSON_THROW_ON_ERROR | JSON_BIGINT_AS_STRING;
            $value = self::withBigIntegers($value, json_decode($text, true, self::READ_DEPTH, $flags));
        }
        return $value;
    }

    /** An integer was too long where one reading has a float and the other one a string. */
    private static function withBigIntegers(mixed $value, mixed $exact): mixed
    {
        if (is_array($value)) {
            foreach ($value as $key => $inner) {
                $value[$key] = self::withBigIntegers($inner, $exact[$key]);
            }
        } elseif (is_float($value) && is_string($exact)) {
            return new BigInteger($exact);
        }
        return $value;
    }

    /**
     * @param int $how STRICT, or LENIENT: what is no JSON becomes null, and broken UTF-8 becomes
     *        U+FFFD
     * @throws \JsonException
     */
    public static function encode(mixed $value, int $how = self::STRICT): string
    {
        // A jsonSerialize of the program may call json_encode itself, and a signal handler writes
        // frames.
        $outer = self::$bigIntegers;
        self::$bigIntegers = 0;
        try {
            $text = (string) json_encode($value, self::FLAGS | $how, self::WRITE_DEPTH);
            return self::$bigIntegers === 0 ? $text : preg_replace('/"' . self::$mark . '(-?\d+)"/', '$1', $text);
        } finally {
            self::$bigIntegers = $outer;
        }
    }

    /**
     * What `jsonSerialize` of a BigInteger gives: inside `encode`, a string that becomes a number
     * there.
     */
    public static function digits(string $digits): string
    {
        if (self::$bigIntegers === null) {
            return $digits;
        }
        self::$bigIntegers++;
        self::$mark ??= 'ojs-number-' . bin2hex(random_bytes(12)) . ':';
        return self::$mark . $digits;
    }
}
