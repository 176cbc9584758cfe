<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** Enqueues jobs at the backend, from an application or from a handler. */
final class Client
{
    private const ATTEMPTS = 3;
    private const FIRST_PAUSE = 0.2;
    /** In seconds, whatever `Retry-After` says. */
    private const LONGEST_PAUSE = 10.0;
    /** The backend took no job: another request cannot enqueue it twice. */
    private const NOT_TAKEN = [self::NOT_SENT, 429, 503];
    /** With 200 and 201 for an answer that broke off. */
    private const MAYBE_TAKEN = [self::NO_ANSWER, 200, 201, 500, 502, 504];
    private const NO_ANSWER = 0;
    private const NOT_SENT = -1;

    private readonly string $url;
    private readonly string $token;

    /**
     * @param ?string $url of the backend, such as http://backend:8080; default: OJS_URL
     * @param ?string $token sent as a bearer token
     * @param float $timeout of one request, in seconds
     */
    public function __construct(
        ?string $url = null,
        #[\SensitiveParameter] ?string $token = null,
        private readonly float $timeout = 10.0,
    ) {
        $this->url = preg_replace('#(/ojs/v1)?/*$#D', '', $url ?? (string) getenv('OJS_URL'));
        if (!str_contains($this->url, '://')) {
            throw new \InvalidArgumentException('the URL of the backend is missing: set OJS_URL, or give one');
        }
        $this->token = trim((string) $token);
        if (preg_match('/[^!-~]/', $this->token) === 1) {
            throw new \InvalidArgumentException('the token has a character that a header cannot have');
        }
    }

    /**
     * Enqueue a job, in up to 3 requests.
     *
     * @param array<mixed> $args
     * @param ?string $id a UUIDv7 as of `newId`: with it a request without an answer is repeated,
     *        because the backend does not take the same job twice. Without it only refused
     *        connections and the statuses 429 and 503 are
     * @param mixed ...$options options of the backend: queue: 'mail', delay_until:
     *        '2030-01-01T09:00:00Z', retry: [...]
     * @return string the job's id
     * @throws EnqueueFailed
     */
    public function enqueue(string $type, array $args = [], ?string $id = null, mixed ...$options): string
    {
        $body = ($id === null ? [] : ['id' => $id])
            + ['type' => $type, 'args' => array_values($args), 'options' => (object) $options];
        $text = Json::encode($body);
        for ($attempt = 1; ; $attempt++) {
            [$status, $answer, $pause] = $this->post($text);
            $told = json_decode($answer, true);
            if ($status >= 200 && $status < 300 && is_string($told['job']['id'] ?? null)) {
                return $told['job']['id'];
            }
            // A unique policy may refuse the job because of another one.
            $isOwn = ($told['error']['details']['existing_job_id'] ?? $id) === $id;
            if ($status === 409 && $id !== null && $isOwn && $attempt > 1) {
                return $id;
            }
            $isSafe = in_array($status, self::NOT_TAKEN, true)
                || ($id !== null && in_array($status, self::MAYBE_TAKEN, true));
            if (!$isSafe || $attempt === self::ATTEMPTS) {
                $what = ($status > 0 ? "status $status: " : '') . (Text::line($answer) ?: 'the answer is empty');
                throw new EnqueueFailed("$type was not enqueued: $what", max(0, $status));
            }
            usleep((int) (min(self::LONGEST_PAUSE, max($pause, self::FIRST_PAUSE * 2 ** ($attempt - 1))) * 1e6));
        }
    }

    /** A new id for `enqueue`: a UUIDv7. */
    public static function newId(): string
    {
        $hex = sprintf('%012x', (int) (microtime(true) * 1000)) . bin2hex(random_bytes(10));
        [$hex[12], $hex[16]] = ['7', '89ab'[random_int(0, 3)]];
        return vsprintf('%s%s-%s-%s-%s-%s%s%s', str_split($hex, 4));
    }

    /**
     * @return array{int, string, int} the status with the body, or NOT_SENT or NO_ANSWER with the
     *         reason; and the seconds of `Retry-After`
     */
    private function post(string $body): array
    {
        $token = $this->token === '' ? [] : ["Authorization: Bearer {$this->token}"];
        $context = stream_context_create(['http' => [
            'method' => 'POST', 'header' => ['Content-Type: application/json', ...$token], 'content' => $body,
            'timeout' => $this->timeout, 'ignore_errors' => true, 'follow_location' => 0,
        ]]);
        error_clear_last();
        $answer = @file_get_contents("{$this->url}/ojs/v1/jobs", false, $context);
        if ($answer === false) {
            $why = Text::line(error_get_last()['message'] ?? 'no answer');
            return [preg_match('/refused|getaddrinfo/', $why) === 1 ? self::NOT_SENT : self::NO_ANSWER, $why, 0];
        }
        preg_match('#^HTTP/\S+ (\d{3})(?:.*\nRetry-After: *(\d+))?#is', implode("\n", $http_response_header), $match);
        return [(int) ($match[1] ?? self::NO_ANSWER), $answer, (int) ($match[2] ?? 0)];
    }
}
