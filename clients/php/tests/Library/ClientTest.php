<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests\Library;

use Ojs\Worker\Client;
use Ojs\Worker\EnqueueFailed;
use Ojs\Worker\Tests\FakeBackend;
use PHPUnit\Framework\TestCase;

final class ClientTest extends TestCase
{
    private const DUPLICATE = "HTTP/1.1 409 X\r\n\r\n"
        . '{"error":{"code":"duplicate","details":{"existing_job_id":"another"}}}';

    private ?FakeBackend $backend = null;

    protected function tearDown(): void
    {
        $this->backend?->close();
    }

    private function client(int|string ...$statuses): Client
    {
        $this->backend = new FakeBackend($statuses);
        return new Client($this->backend->url, 'the-token', 5.0);
    }

    public function testAJobIsOneRequestWithTheToken(): void
    {
        self::assertSame('from-the-backend', $this->client(201)->enqueue('email.send', ['a@b.c'], queue: 'mail'));
        [$request] = $this->backend->requests();
        self::assertSame(['type' => 'email.send', 'args' => ['a@b.c'], 'options' => ['queue' => 'mail']], $request['body']);
        self::assertStringStartsWith("POST /ojs/v1/jobs HTTP/1", $request['head']);
        self::assertStringContainsString("Authorization: Bearer the-token\r\n", $request['head']);
    }

    public static function repeated(): array
    {
        $id = '01900000-0000-7000-8000-000000000001';
        return [
            'a backend that is busy' => [[503, 429, 201], null, 'from-the-backend'],
            'no answer, with an id' => [[0, 201], $id, 'from-the-backend'],
            'no answer to what was taken' => [[0, 409], $id, $id],
            'half an answer to what was taken' => [["HTTP/1.1 201 X\r\nContent-Length: 99\r\n\r\n{", 409], $id, $id],
        ];
    }

    /** @dataProvider repeated */
    public function testWhatIsRepeated(array $statuses, ?string $id, string $result): void
    {
        self::assertSame($result, $this->client(...$statuses)->enqueue('t', [], $id));
        self::assertCount(count($statuses), $this->backend->requests());
    }

    public static function refused(): array
    {
        return [
            'no such token' => [[401], 401, null],
            'no answer, without an id' => [[0], 0, null],
            'an error, without an id' => [[500], 500, null],
            'a duplicate' => [[409], 409, Client::newId()],
            'always busy' => [[503, 503, 503], 503, null],
            'the duplicate of another job' => [[503, self::DUPLICATE], 409, Client::newId()],
            'an answer without a job' => [["HTTP/1.1 200 X\r\n\r\n<html>"], 200, null],
            'an answer that is not HTTP' => [["hello\r\n\r\n"], 0, null],
        ];
    }

    /** @dataProvider refused */
    public function testWhatFails(array $statuses, int $status, ?string $id): void
    {
        try {
            $this->client(...$statuses)->enqueue('t', ['secret'], $id);
            self::fail('it was taken');
        } catch (EnqueueFailed $error) {
            self::assertSame($status, $error->getCode());
            self::assertStringContainsString($status === 0 ? 't was not enqueued' : "status $status", $error->getMessage());
            self::assertStringNotContainsString('secret', $error->getMessage());
        }
        self::assertCount(count($statuses), $this->backend->requests());
    }

    public function testTheBackendSaysWhenToComeAgain(): void
    {
        $client = $this->client("HTTP/1.1 429 X\r\nRetry-After: 1\r\n\r\n", 201);
        $start = microtime(true);
        $client->enqueue('t');
        self::assertGreaterThan(0.9, microtime(true) - $start);
    }

    public function testATokenIsOneHeaderAndInNoError(): void
    {
        new Client('http://127.0.0.1:1', "from-a-file\n");
        try {
            new Client('http://127.0.0.1:1', "word\r\nX-Other: 1");
            self::fail('it was taken');
        } catch (\InvalidArgumentException $error) {
            self::assertStringNotContainsString('word', (string) $error);
        }
    }

    public function testABackendThatIsNotThereIsAskedThreeTimes(): void
    {
        $start = microtime(true);
        try {
            (new Client('http://127.0.0.1:1'))->enqueue('t');
            self::fail('it was taken');
        } catch (EnqueueFailed $error) {
            self::assertStringContainsString('refused', $error->getMessage());
        }
        self::assertGreaterThan(0.5, microtime(true) - $start);
    }

    public function testANewIdIsAUuidOfVersion7(): void
    {
        $ids = [Client::newId(), Client::newId()];
        self::assertMatchesRegularExpression('/^0[0-9a-f]{7}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/', $ids[0]);
        self::assertNotSame($ids[0], $ids[1]);
    }

    public function testAClientNeedsAUrl(): void
    {
        $this->expectExceptionMessage('OJS_URL');
        new Client('');
    }
}
