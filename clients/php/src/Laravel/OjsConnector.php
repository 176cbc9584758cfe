<?php

declare(strict_types=1);

namespace Ojs\Worker\Laravel;

use Illuminate\Queue\Connectors\ConnectorInterface;
use Ojs\Worker\Client;

/** Makes connections of the driver `ojs`: `Queue::extend('ojs', fn () => new OjsConnector())`. */
final class OjsConnector implements ConnectorInterface
{
    /** @param array{url?: string, token?: string, queue?: string, after_commit?: bool} $config */
    public function connect(array $config): OjsQueue
    {
        $client = new Client($config['url'] ?? null, $config['token'] ?? null);
        return new OjsQueue($client, $config['queue'] ?? 'default', $config['after_commit'] ?? false);
    }
}
