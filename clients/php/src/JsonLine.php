<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function intdiv;
use function is_bool;
use function is_scalar;
use function is_string;
use function json_decode;
use function json_encode;
use function preg_match;
use function str_contains;
use function strlen;
use function strrpos;
use function strtolower;
use function strtr;
use function substr;

/** A record of a log as one line of JSON, in the shape of ojs-init's own. Use it in whatever log you have. */
final class JsonLine
{
    private const SEVERITIES = [
        'trace' => ['TRACE', 1], 'debug' => ['DEBUG', 5], 'info' => ['INFO', 9], 'notice' => ['INFO', 9],
        'warn' => ['WARN', 13], 'warning' => ['WARN', 13], 'error' => ['ERROR', 17], 'critical' => ['FATAL', 21],
        'alert' => ['FATAL', 21], 'emergency' => ['FATAL', 21], 'fatal' => ['FATAL', 21],
    ];
    /** A line of this many bytes is written to a pipe in one piece. */
    private const MAX_BYTES = 4095;
    /** Of all attributes together: a stack needs room, too. */
    private const MAX_ATTRIBUTE_BYTES = 1000;
    private const FLAGS = JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_INVALID_UTF8_SUBSTITUTE;

    /**
     * One line, without its line break, with the job whose handler runs now.
     *
     * @param string $level a level of PSR-3
     * @param array<string, mixed> $context as in PSR-3; $context['exception'] is a Throwable; all else is in
     *                                      `attributes`, too, up to 1000 bytes
     */
    public static function format(string $level, string $message, array $context = []): string
    {
        [$severity, $number] = self::SEVERITIES[strtolower($level)] ?? self::SEVERITIES['info'];
        $job = $context['ojs_job'] ?? CurrentJob::$job;
        $record = [
            'timestamp' => (new \DateTimeImmutable('now', new \DateTimeZone('UTC')))->format('Y-m-d\TH:i:s.v\Z'),
            'severity' => $severity,
            'severity_number' => $number,
            'message' => Text::clean(self::filled($message, $context), 1400),
            'category' => 'worker',
            'component' => 'handler',
        ];
        if ($job instanceof Job) {
            $record += self::ofJob($job);
        }
        $error = $context['exception'] ?? null;
        if ($error instanceof \Throwable) {
            $record['error'] = [
                'type' => Text::clean(Answer::shortName($error), 200),
                'message' => Text::clean($error->getMessage(), 700),
                'stack' => Answer::stack($error),
            ];
        }
        $record['attributes'] = self::attributes($context);
        return self::bounded($record);
    }

    /**
     * What stands on each line about a job: `ojs` and, where the job has one, `trace`.
     *
     * @return array<string, array<string, mixed>>
     */
    public static function ofJob(Job $job): array
    {
        $fields = ['ojs' => ['job_id' => Text::clean($job->id, 200), 'job_type' => Text::clean($job->type, 200)]];
        $fields['ojs']['queue'] = Text::clean($job->queue, 200);
        if ($job->attempt !== null) {
            $fields['ojs']['attempt'] = $job->attempt;
        }
        $parent = $job->meta['traceparent'] ?? null;
        $form = '/^(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?$/D';
        if (is_string($parent) && preg_match($form, $parent, $match) === 1) {
            $fields['trace'] = ['trace_id' => $match[1], 'span_id' => $match[2]];
        } elseif (is_string($job->meta['trace_id'] ?? null)) {
            $fields['trace'] = ['trace_id' => Text::clean($job->meta['trace_id'], 200)];
        }
        return $fields;
    }

    /**
     * The message with what its `{names}` stand for.
     *
     * @internal
     * @param array<string, mixed> $context
     */
    public static function filled(string $message, array $context): string
    {
        $values = [];
        foreach ($context as $name => $value) {
            try {
                if (is_scalar($value) || $value instanceof \Stringable) {
                    $values['{' . $name . '}'] = is_bool($value) ? ($value ? 'true' : 'false') : (string) $value;
                }
            } catch (\Throwable) { // a line of the log fails no job
                continue;
            }
        }
        return $values === [] || !str_contains($message, '{') ? $message : strtr($message, $values);
    }

    /**
     * What the program gave: numbers and texts as they are, all else as JSON has it. What JSON does not take is left out, and so
     * is what has no room.
     *
     * @param array<string, mixed> $context
     */
    private static function attributes(array $context): \stdClass
    {
        $attributes = [];
        $room = self::MAX_ATTRIBUTE_BYTES;
        foreach ($context as $name => $value) {
            if ($name === 'ojs_job' || ($name === 'exception' && $value instanceof \Throwable)) {
                continue;
            }
            try {
                $shown = $value instanceof \Stringable && !$value instanceof \JsonSerializable ? (string) $value : $value;
                $json = json_encode($shown, self::FLAGS | JSON_THROW_ON_ERROR, 16);
                $plain = json_decode($json, flags: JSON_THROW_ON_ERROR);
            } catch (\Throwable) { // an object's own method may throw whatever it likes
                continue;
            }
            $size = strlen($json) + strlen((string) json_encode((string) $name, self::FLAGS)) + 2;
            if ($size <= $room) {
                $attributes[$name] = $plain;
                $room -= $size;
            }
        }
        return (object) $attributes;
    }

    /** @param array<string, mixed> $record */
    private static function bounded(array $record): string
    {
        $line = '';
        foreach (self::everShorter($record) as $shorter) {
            $line = (string) json_encode($shorter, self::FLAGS);
            if (strlen($line) <= self::MAX_BYTES) {
                break;
            }
        }
        return $line;
    }

    /**
     * The record, and what is left of it as ever more is given up: the end of the stack, the attributes, the texts, the names.
     *
     * @param array<string, mixed> $record
     * @return \Generator<array<string, mixed>>
     */
    private static function everShorter(array $record): \Generator
    {
        yield $record;
        while (str_contains($record['error']['stack'] ?? '', "\n")) {
            $record['error']['stack'] = substr($record['error']['stack'], 0, strrpos($record['error']['stack'], "\n"));
            yield $record;
        }
        $record['attributes'] = new \stdClass();
        yield $record;
        for ($limit = 1000; $limit >= 125; $limit = intdiv($limit, 2)) {
            $record['message'] = Text::clean($record['message'], $limit);
            if (isset($record['error'])) {
                $record['error']['message'] = Text::clean($record['error']['message'], $limit);
            }
            yield $record;
        }
        // Names of control characters, for one: each is six bytes.
        unset($record['error']['stack']);
        foreach (['ojs', 'trace'] as $about) {
            foreach ($record[$about] ?? [] as $name => $value) {
                $record[$about][$name] = is_string($value) ? Text::clean($value, 50) : $value;
            }
        }
        yield $record;
    }
}
