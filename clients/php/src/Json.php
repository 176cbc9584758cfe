<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function bin2hex;
use function get_object_vars;
use function is_array;
use function is_float;
use function is_int;
use function is_object;
use function is_string;
use function json_decode;
use function json_encode;
use function min;
use function preg_match;
use function preg_replace;
use function random_bytes;
use function strcspn;
use function strlen;
use function substr;

/**
 * JSON as it goes over the worker socket.
 *
 * @internal
 */
final class Json
{
    /** How deep a value inside a frame may be nested. */
    public const DEPTH = 99;
    private const READ_DEPTH = 1024;
    /** What a text has between its values, and what begins a string. */
    private const MARKS = '"{}[]:,';
    private const FLAGS = JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES
        | JSON_PRESERVE_ZERO_FRACTION;

    private static bool $isEncoding = false;
    private static bool $hasBigIntegers = false;
    private static ?string $mark = null;

    /**
     * Objects become arrays; with $asObjects stdClass, which tells {} from []. Numbers beyond int are BigInteger.
     *
     * @throws \JsonException
     */
    public static function decode(string $text, bool $asObjects = false): mixed
    {
        $flags = JSON_THROW_ON_ERROR | ($asObjects ? 0 : JSON_OBJECT_AS_ARRAY);
        $value = json_decode($text, null, self::READ_DEPTH, $flags);
        if (preg_match('/\d{19}/', $text) === 1) {
            $exact = json_decode($text, null, self::READ_DEPTH, $flags | JSON_BIGINT_AS_STRING);
            $value = self::withBigIntegers($value, $exact);
        }
        return $value;
    }

    /** Where one reading has a float and the other a string, an integer was too long. */
    private static function withBigIntegers(mixed $value, mixed $exact): mixed
    {
        if (is_float($value) && is_string($exact)) {
            return new BigInteger($exact);
        }
        if (is_array($value)) {
            foreach ($value as $key => $inner) {
                if (!is_string($inner) && !is_int($inner)) {
                    $value[$key] = self::withBigIntegers($inner, $exact[$key]);
                }
            }
        } elseif (is_object($value)) {
            foreach (get_object_vars($value) as $key => $inner) {
                $value->{$key} = self::withBigIntegers($inner, $exact->{$key});
            }
        }
        return $value;
    }

    /**
     * JSON that every parser takes: no NaN, no broken UTF-8, no objects that are no data, not too deep.
     *
     * @throws \JsonException
     */
    public static function encode(mixed $value, int $depth = self::DEPTH): string
    {
        if (!is_array($value) && !is_object($value)) {
            return json_encode($value, self::FLAGS, $depth);
        }
        self::check($value, $depth);
        // A jsonSerialize of the program's may encode something itself, and the handler of a signal writes frames.
        $outer = [self::$isEncoding, self::$hasBigIntegers];
        self::$isEncoding = true;
        self::$hasBigIntegers = false;
        try {
            $text = json_encode($value, self::FLAGS, $depth);
        } finally {
            $hasBigIntegers = self::$hasBigIntegers;
            [self::$isEncoding, self::$hasBigIntegers] = $outer;
        }
        if ($hasBigIntegers) {
            $text = preg_replace('/"' . self::$mark . '(-?\d+)"/', '$1', $text);
        }
        return $text;
    }

    /** Before the digits of a BigInteger, so that they can be told from a string of the program's. */
    public static function numberMark(): string
    {
        if (!self::$isEncoding) {
            return '';
        }
        self::$hasBigIntegers = true;
        return self::$mark ??= 'ojs-number-' . bin2hex(random_bytes(12)) . ':';
    }

    /** json_encode makes something of every object: of a connection, of a closure. That is no result. */
    private static function check(mixed $value, int $room): void
    {
        for ($hops = 0; $value instanceof \JsonSerializable && !$value instanceof BigInteger; $hops++) {
            if ($hops > 9) {
                throw new \JsonException('jsonSerialize of ' . Text::className($value) . ' has no end');
            }
            $value = $value->jsonSerialize();
        }
        if (is_object($value)) {
            if ($value instanceof BigInteger || $value instanceof \BackedEnum) {
                return;
            }
            if (!$value instanceof \stdClass && !$value instanceof \ArrayObject) {
                throw new \JsonException(
                    'an object of class ' . Text::className($value)
                    . '; accepted are arrays, stdClass, JsonSerializable, backed enums'
                );
            }
        } elseif (!is_array($value)) {
            return;
        }
        if ($room <= 0) {
            throw new \JsonException('nested too deep, or in a circle: at most ' . self::DEPTH . ' levels');
        }
        foreach ($value as $inner) {
            if (is_array($inner) || is_object($inner)) {
                self::check($inner, $room - 1);
            }
        }
    }

    /** The id of the job in a frame that PHP cannot read: nested too deep, half a surrogate pair. */
    public static function salvageJobId(string $text): ?string
    {
        $depth = 0;
        $keys = [];
        $last = '';
        $size = strlen($text);
        for ($at = strcspn($text, self::MARKS); $at < $size; $at += strcspn($text, self::MARKS, $at)) {
            $mark = $text[$at];
            if ($mark === '"') {
                $end = self::endOfString($text, $at);
                if ($depth <= 2) {
                    $last = substr($text, $at, $end - $at);
                }
                if ($depth === 2 && ($keys[1] ?? null) === 'job' && ($keys[2] ?? null) === 'id') {
                    $id = json_decode($last);
                    return is_string($id) ? $id : null;
                }
                $at = $end;
                continue;
            }
            $at++;
            if ($mark === '{' || $mark === '[') {
                $keys[++$depth] = null;
            } elseif ($mark === '}' || $mark === ']') {
                $depth--;
            } else {
                $keys[$depth] = $mark === ':' && $depth <= 2 ? json_decode($last) : null;
            }
        }
        return null;
    }

    /** Behind the quotation mark that ends it. Without PCRE, which has limits that depend on the text. */
    private static function endOfString(string $text, int $start): int
    {
        $size = strlen($text);
        for ($at = $start + 1; $at < $size; $at += 2) {
            $at += strcspn($text, '"\\', $at);
            if ($at >= $size || $text[$at] === '"') {
                return min($size, $at + 1);
            }
        }
        return $size;
    }
}
