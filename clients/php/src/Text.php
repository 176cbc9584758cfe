<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function explode;
use function json_decode;
use function json_encode;
use function preg_match;
use function preg_replace;
use function strlen;
use function substr;

/**
 * Strings that fit into a frame or onto a line of the log.
 *
 * @internal
 */
final class Text
{
    /** Valid UTF-8 of at most so many characters. */
    public static function clean(string $text, int $limit): string
    {
        if (strlen($text) > $limit * 4) {
            $text = substr($text, 0, $limit * 4 + 4);
        }
        if (preg_match('//u', $text) !== 1) {
            $text = (string) json_decode((string) json_encode($text, JSON_INVALID_UTF8_SUBSTITUTE));
        }
        if (strlen($text) > $limit && preg_match('/^.{' . ($limit + 1) . '}/us', $text) === 1) {
            preg_match('/^.{' . ($limit - 3) . '}/us', $text, $match);
            return $match[0] . '...';
        }
        return $text;
    }

    /** The same without control characters, for a log line. */
    public static function line(string $text, int $limit = 1000): string
    {
        return (string) preg_replace('/[\x00-\x1f\x7f]+/', ' ', self::clean($text, $limit));
    }

    /** The class, without the path and the number that PHP appends to that of an anonymous one. */
    public static function className(object $object): string
    {
        return explode("\0", $object::class)[0];
    }
}
