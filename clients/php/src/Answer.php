<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * The frames that answer a job whose handler did not return.
 *
 * @internal
 */
final class Answer
{
    public static function release(string $jobId, Release $release): string
    {
        // ojs-init holds a job for 30 s at most.
        $later = $release->after > 0 ? ['after_ms' => (int) ceil(1000 * min($release->after, 30.0))] : [];
        $reason = $release->reason === null ? [] : ['reason' => $release->reason];
        return Json::encode(['type' => 'release', 'job_id' => $jobId] + $reason + $later, Json::LENIENT);
    }

    public static function fail(string $jobId, \Throwable $error): string
    {
        $frame = ['type' => 'fail', 'job_id' => $jobId, 'error' => self::describe($error)];
        try {
            return Json::encode($frame, Json::LENIENT);
        } catch (\Throwable) {
            // A jsonSerialize among the details threw an error.
            unset($frame['error']['details']);
            return Json::encode($frame, Json::LENIENT);
        }
    }

    /** @return array<string, mixed> */
    private static function describe(\Throwable $error): array
    {
        $isOwn = $error instanceof Failure;
        $cause = $isOwn ? $error->getPrevious() : $error;
        $message = $error->getMessage();
        // ojs-init reads the beginning of a line that is too long, so what decides comes first.
        $described = [
            'retryable' => !$error instanceof Discard,
            'code' => $isOwn ? $error->errorCode : 'handler_error',
            'type' => ($isOwn ? $error->type : null) ?? Text::className($cause ?? $error),
            'message' => $message === '' && $cause !== null ? $cause->getMessage() : $message,
        ];
        if ($cause !== null) {
            $described['backtrace'] = Text::backtrace($cause);
        }
        return $described + ($isOwn && $error->details !== null ? ['details' => (object) $error->details] : []);
    }
}
