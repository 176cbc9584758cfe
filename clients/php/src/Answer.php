<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function array_key_last;
use function array_pop;
use function ceil;
use function count;
use function explode;
use function implode;
use function in_array;
use function preg_replace;
use function str_starts_with;
use function strlen;

/**
 * The one answer that a job gets: what its handler's end means as a frame.
 *
 * @internal
 */
final class Answer
{
    public const MAX_MESSAGE = 10_000;
    private const MAX_BACKTRACE_FRAMES = 50;
    private const MAX_BACKTRACE_CHARS = 10_000;
    /** Of failures that this library makes itself. */
    private const OWN_TYPES = ['InvalidArgs', 'InvalidResult', 'StepsChanged', 'CheckpointTooLarge'];
    /** In the log. */
    private const MAX_CAUSES = 5;

    private function __construct(public readonly string $kind, public readonly string $frame)
    {
    }

    public static function to(
        Job $job,
        mixed $result,
        ?\Throwable $error,
        ?string $cancelReason,
        int $maxFrame,
        Logger $log,
    ): self {
        $ended = $job->endedBetween();
        if ($ended !== null && !$error instanceof Failure && !$error instanceof Release) {
            // Between two rows or steps; the handler has made something else of that, but is not through with them.
            if ($error !== null && $error !== $ended && !$error instanceof Cancelled) {
                $log->warning('job {id} ({type}) had to end; what its handler raised then changes nothing', [
                    'id' => $job->id, 'type' => $job->type, 'exception' => $error, 'ojs_job' => $job,
                ]);
            }
            $error = $ended;
        }
        if ($error === null) {
            $answer = self::ack($job, $result, $maxFrame, $log);
            if ($answer instanceof self) {
                return $answer;
            }
            $error = $answer;
        }
        $job->saveBeforeEnd($log);
        if ($error instanceof Cancelled && $cancelReason !== null) {
            $error = $cancelReason === 'timeout'
                ? new Retry('the job took longer than it may', code: 'timeout', type: 'Timeout')
                : new Release($cancelReason);
        }
        if ($error instanceof Release) {
            $reason = $error->reason === null ? null : Text::clean($error->reason, 1000);
            $later = $error->after > 0 ? ['after_ms' => (int) ceil($error->after * 1000)] : [];
            return new self('release', Frame::about('release', $job->id, ['reason' => $reason] + $later));
        }
        if (!self::isInOwnWords($error)) {
            $isRetryable = !$error instanceof Failure || $error->isRetryable();
            $log->log($isRetryable && $job->hasMoreAttempts() ? 'warning' : 'error', 'job {id} ({type}) failed', [
                'id' => $job->id, 'type' => $job->type, 'exception' => $error, 'ojs_job' => $job,
            ]);
        }
        return self::fail($job, $error, $maxFrame, $log);
    }

    /** Whether the handler itself said what is wrong: then there is no mistake to look for, and ojs-init logs its words. */
    private static function isInOwnWords(\Throwable $error): bool
    {
        return $error instanceof Failure && $error->getPrevious() === null
            && !in_array($error->type, self::OWN_TYPES, true);
    }

    /** For a job whose frame PHP cannot read. */
    public static function unreadable(string $jobId, \Throwable $error): self
    {
        $message = 'the job cannot be read by PHP: ' . Text::clean($error->getMessage(), 500);
        return self::withoutHandler($jobId, $message, 'handler_error', 'UnreadableJob', false);
    }

    /** For a job whose answer cannot be made: a class of the program's whose constructor leaves out that of this library, for one. */
    public static function unmade(Job $job, ?\Throwable $error, \Throwable $unmade, Logger $log): self
    {
        try {
            $log->error('job {id} ({type}): the answer cannot be made', [
                'id' => $job->id, 'type' => $job->type, 'exception' => $unmade, 'ojs_job' => $job,
            ]);
        } catch (\Throwable) {
            // The answer is worth more than its line in the log.
        }
        $what = Text::className($error ?? $unmade);
        $isRetryable = !$error instanceof Failure || $error->isRetryable();
        return self::withoutHandler($job->id, "the answer cannot be made: $what", 'handler_error', Text::clean($what, 200), $isRetryable);
    }

    /** For a job that names no type. */
    public static function withoutType(string $jobId): self
    {
        return self::withoutHandler($jobId, 'the job has no type', 'handler_not_found', 'HandlerNotFound', true);
    }

    /** For a job whose timeout was over before its handler began. */
    public static function notBegun(string $jobId): self
    {
        return self::withoutHandler($jobId, 'the job took longer than it may: it had not begun', 'timeout', 'Timeout', true);
    }

    private static function withoutHandler(string $jobId, string $message, string $code, string $type, bool $isRetryable): self
    {
        $described = ['message' => $message, 'code' => $code, 'type' => $type, 'retryable' => $isRetryable];
        return new self('fail', Frame::of('fail', ['job_id' => $jobId, 'error' => $described]));
    }

    private static function ack(Job $job, mixed $result, int $maxFrame, Logger $log): self|Discard
    {
        try {
            $frame = Frame::about('ack', $job->id, [], 'result', $result);
        } catch (\Throwable $unfit) {
            return new Discard(
                "the handler's result is not JSON: " . Text::clean($unfit->getMessage(), 500),
                type: 'InvalidResult',
            );
        }
        if (strlen($frame) > $maxFrame) {
            // As ojs-init does when the backend refuses a result: the work is done, it must not be done again.
            $log->error('job {id}: its result is dropped: {size} bytes, over {max}', [
                'id' => $job->id, 'size' => strlen($frame), 'max' => $maxFrame, 'ojs_job' => $job,
            ]);
            $frame = Frame::about('ack', $job->id);
        }
        return new self('ack', $frame);
    }

    private static function fail(Job $job, \Throwable $error, int $maxFrame, Logger $log): self
    {
        $described = self::describe($error, $log);
        $frame = Frame::of('fail', ['job_id' => $job->id, 'error' => $described]);
        if (strlen($frame) > $maxFrame) {
            $log->error('job {id}: details and backtrace are dropped: the report has {size} bytes', [
                'id' => $job->id, 'size' => strlen($frame), 'ojs_job' => $job,
            ]);
            unset($described['details'], $described['backtrace']);
            $described['message'] = Text::clean($described['message'], 200);
            $frame = Frame::of('fail', ['job_id' => $job->id, 'error' => $described]);
        }
        return new self('fail', $frame);
    }

    /**
     * What the backend is told about an error.
     *
     * @return array<string, mixed>
     */
    public static function describe(\Throwable $error, Logger $log): array
    {
        $origin = $error;
        $type = null;
        $described = ['code' => 'handler_error', 'retryable' => true];
        $message = $error->getMessage();
        if ($error instanceof Failure) {
            $origin = $error->getPrevious();
            $type = $error->type;
            $described = ['code' => Text::clean($error->errorCode, 200), 'retryable' => $error->isRetryable()];
            $message = $message === '' && $origin !== null ? $origin->getMessage() : $message;
            if ($error->details !== null) {
                try {
                    Json::encode($error->details, Json::DEPTH - 1);
                    $described['details'] = (object) $error->details;
                } catch (\Throwable) {
                    $log->warning('the details of a {class} are no JSON and are left out', [
                        'class' => Text::className($error),
                    ]);
                }
            }
        }
        $name = self::shortName($origin ?? $error);
        $described['type'] = Text::clean($type ?? $name, 200);
        $described['message'] = Text::clean($message === '' ? $name : $message, self::MAX_MESSAGE);
        $backtrace = $origin === null ? [] : self::backtrace($origin);
        return $described + ($backtrace === [] ? [] : ['backtrace' => $backtrace]);
    }

    /** The class; without its namespace if that is this library's. */
    public static function shortName(\Throwable $error): string
    {
        return preg_replace('/^Ojs\\\\Worker\\\\/', '', Text::className($error));
    }

    /** The backtrace for people, and those of what caused it; a line each. */
    public static function stack(\Throwable $error): string
    {
        $lines = [];
        for ($at = $error, $depth = 0; $at !== null && $depth < self::MAX_CAUSES; $at = $at->getPrevious(), $depth++) {
            if ($depth > 0) {
                $lines[] = '  caused by ' . self::shortName($at) . ': ' . Text::line($at->getMessage());
            }
            foreach (self::backtrace($at) as $call) {
                $lines[] = "    at $call";
            }
        }
        return implode("\n", $lines);
    }

    /**
     * The calls that led there, innermost first, without our own below the handler.
     *
     * @return list<string>
     */
    public static function backtrace(\Throwable $error): array
    {
        $frames = $error->getTrace();
        $lines = [];
        $room = self::MAX_BACKTRACE_CHARS;
        $file = $error->getFile();
        $line = $error->getLine();
        foreach ([...$frames, []] as $frame) {
            $in = isset($frame['function']) ? ' in ' . ($frame['class'] ?? '') . ($frame['type'] ?? '')
                . $frame['function'] : '';
            $text = Text::line(explode("\0", "$file:$line$in")[0], 1000);
            $room -= strlen($text);
            if ($room < 0 || count($lines) === self::MAX_BACKTRACE_FRAMES) {
                return $lines;
            }
            if (!str_starts_with($file, __DIR__ . '/') || $lines === []) {
                $lines[] = $text;
            }
            $file = $frame['file'] ?? '[internal]';
            $line = $frame['line'] ?? 0;
        }
        while ($lines !== [] && str_starts_with($lines[array_key_last($lines)], '[internal]')) {
            array_pop($lines);
        }
        return $lines;
    }
}
