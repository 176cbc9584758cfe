<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function substr;

/**
 * Frames from the worker.
 *
 * @internal
 */
final class Frame
{
    /**
     * @param array<string, mixed> $fields those that are null are left out
     */
    public static function of(string $type, array $fields): string
    {
        foreach ($fields as $name => $value) {
            if ($value === null) {
                unset($fields[$name]);
            }
        }
        return Json::encode(['type' => $type] + $fields, Json::DEPTH + 1);
    }

    /**
     * A frame about a job; the last field is the program's own value.
     *
     * @param array<string, mixed> $fields those that are null are left out
     * @param bool $isKept whether a null of the program's is sent
     */
    public static function about(
        string $type,
        string $jobId,
        array $fields = [],
        ?string $name = null,
        mixed $value = null,
        bool $isKept = false,
    ): string {
        // Most jobs end with an answer that has nothing but its id.
        $frame = $fields === []
            ? '{"type":"' . $type . '","job_id":' . Json::encode($jobId) . '}'
            : self::of($type, ['job_id' => $jobId] + $fields);
        if ($name === null || ($value === null && !$isKept)) {
            return $frame;
        }
        return substr($frame, 0, -1) . ',"' . $name . '":' . Json::encode($value) . '}';
    }
}
