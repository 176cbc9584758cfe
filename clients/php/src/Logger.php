<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function array_keys;
use function defined;
use function error_reporting;
use function fopen;
use function fwrite;
use function implode;
use function in_array;
use function is_string;
use function set_error_handler;
use function strtolower;

/**
 * A log on standard error, one record a line, with the job whose handler runs on each of them.
 *
 * The methods are those of PSR-3, whose interface this library does not bring: `PsrLogger` wraps one for libraries that
 * want it. While a job runs, the level in its `meta.log_level` counts instead of this log's.
 */
final class Logger
{
    private const LEVELS = [
        'trace' => 1, 'debug' => 5, 'info' => 9, 'notice' => 9, 'warn' => 13, 'warning' => 13, 'error' => 17,
        'critical' => 21, 'alert' => 21, 'emergency' => 21, 'fatal' => 21,
    ];

    /** @var resource */
    private $stream;
    private int $level;

    /**
     * @param string $format `text`, or `json`: the shape of ojs-init's own log
     * @param string $level least level that is written: debug, info, warning, error
     * @param ?resource $stream default: standard error
     */
    public function __construct(private readonly string $format = 'text', string $level = 'info', $stream = null)
    {
        if (!in_array($format, ['text', 'json'], true)) {
            throw new \InvalidArgumentException("the format of a log is text or json, not $format");
        }
        $this->level = self::LEVELS[strtolower($level)] ?? throw new \InvalidArgumentException(
            "no such level: $level; there are " . implode(', ', array_keys(self::LEVELS))
        );
        $this->stream = $stream ?? (defined('STDERR') ? STDERR : fopen('php://stderr', 'w'));
    }

    /** The job whose handler runs now; null outside of handlers. */
    public static function currentJob(): ?Job
    {
        return CurrentJob::$job;
    }

    /**
     * Write PHP's own warnings and notices, and those of trigger_error, to this log, too.
     */
    public function captureErrors(): void
    {
        set_error_handler(function (int $number, string $text, string $file, int $line): bool {
            if ((error_reporting() & $number) === 0) {
                return true;
            }
            $level = match ($number) {
                E_USER_ERROR, E_RECOVERABLE_ERROR => 'error',
                E_WARNING, E_USER_WARNING => 'warning',
                default => 'notice',
            };
            $this->log($level, "$text ($file:$line)");
            return $number !== E_USER_ERROR;
        });
    }

    /** @param array<string, mixed> $context */
    public function debug(string|\Stringable $message, array $context = []): void
    {
        $this->log('debug', $message, $context);
    }

    /** @param array<string, mixed> $context */
    public function info(string|\Stringable $message, array $context = []): void
    {
        $this->log('info', $message, $context);
    }

    /** @param array<string, mixed> $context */
    public function notice(string|\Stringable $message, array $context = []): void
    {
        $this->log('notice', $message, $context);
    }

    /** @param array<string, mixed> $context */
    public function warning(string|\Stringable $message, array $context = []): void
    {
        $this->log('warning', $message, $context);
    }

    /** @param array<string, mixed> $context */
    public function error(string|\Stringable $message, array $context = []): void
    {
        $this->log('error', $message, $context);
    }

    /** @param array<string, mixed> $context */
    public function critical(string|\Stringable $message, array $context = []): void
    {
        $this->log('critical', $message, $context);
    }

    /** @param array<string, mixed> $context */
    public function alert(string|\Stringable $message, array $context = []): void
    {
        $this->log('alert', $message, $context);
    }

    /** @param array<string, mixed> $context */
    public function emergency(string|\Stringable $message, array $context = []): void
    {
        $this->log('emergency', $message, $context);
    }

    /**
     * @param array<string, mixed> $context `{name}` in the message stands for $context['name']; $context['exception']
     *                                      is a Throwable
     */
    public function log(mixed $level, string|\Stringable $message, array $context = []): void
    {
        $number = self::LEVELS[strtolower((string) $level)] ?? 9;
        $job = $context['ojs_job'] ?? CurrentJob::$job;
        $least = $this->level;
        if ($job instanceof Job && is_string($job->meta['log_level'] ?? null)) {
            $least = self::LEVELS[strtolower($job->meta['log_level'])] ?? $least;
        }
        if ($number < $least) {
            return;
        }
        $line = $this->format === 'json'
            ? JsonLine::format((string) $level, (string) $message, $context)
            : self::text($number, (string) $message, $context);
        @fwrite($this->stream, $line . "\n");
    }

    /** @param array<string, mixed> $context */
    private static function text(int $number, string $message, array $context): string
    {
        $names = [1 => 'trace', 5 => 'debug', 9 => 'info', 13 => 'warning', 17 => 'error', 21 => 'critical'];
        $line = "ojs-worker: {$names[$number]}: " . Text::line(JsonLine::filled($message, $context), 2000);
        $error = $context['exception'] ?? null;
        if ($error instanceof \Throwable) {
            $line .= ': ' . Answer::shortName($error) . ': ' . Text::line($error->getMessage());
            $line .= "\n" . Answer::stack($error);
        }
        return $line;
    }
}
