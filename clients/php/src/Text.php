<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * Texts for the log.
 *
 * @internal
 */
final class Text
{
    /** One line of valid UTF-8 without control characters, cut to 10,000 characters. */
    public static function line(string $text): string
    {
        $valid = (string) json_decode((string) json_encode($text, JSON_INVALID_UTF8_SUBSTITUTE));
        $line = (string) preg_replace('/[\x00-\x1f\x7f]+/', ' ', $valid);
        return preg_match('/^.{10000}/us', $line, $match) === 1 ? "$match[0]..." : $line;
    }

    /**
     * The class of an error: without this library's namespace, and without the path in an anonymous
     * class.
     */
    public static function className(object $object): string
    {
        return preg_replace('/^Ojs\\\\Worker\\\\/', '', explode("\0", $object::class)[0]);
    }

    /**
     * The calls that led to an error, innermost first, without this library's calls below the
     * handler.
     *
     * @return list<string>
     */
    public static function backtrace(\Throwable $error): array
    {
        $lines = [];
        [$file, $line] = [$error->getFile(), $error->getLine()];
        foreach ([...$error->getTrace(), []] as $call) {
            $function = ($call['class'] ?? '') . ($call['type'] ?? '') . ($call['function'] ?? '');
            if ($file !== '' && dirname($file) !== __DIR__) {
                $lines[] = self::line("$file:$line" . ($function === '' ? '' : " in $function"));
            }
            [$file, $line] = [$call['file'] ?? '', $call['line'] ?? 0];
        }
        return $lines;
    }

    /** An error and its causes with their backtraces, on one line. */
    public static function stack(\Throwable $error): string
    {
        $parts = [];
        for ($at = $error; $at !== null; $at = $at->getPrevious()) {
            $parts[] = ($at === $error ? '' : 'caused by ') . self::className($at) . ': ' . $at->getMessage();
            $parts = [...$parts, ...self::backtrace($at)];
        }
        return self::line(implode(' | ', $parts));
    }
}
