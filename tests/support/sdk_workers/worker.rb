# Behaves as a worker on the Ruby SDK does, with its faults. What the variables mean: tests/README.md.
require "json"
require "net/http"
require "securerandom"

# Host and port only: a path in front of /ojs/v1 is dropped.
ADDRESS = URI(ENV.fetch("OJS_URL"))
POLL = Float(ENV.fetch("SDK_POLL_MS", 2000)) / 1000
HEARTBEAT = Float(ENV.fetch("SDK_HEARTBEAT_MS", 15_000)) / 1000
GRACE = Float(ENV.fetch("SDK_GRACE_MS", 25_000)) / 1000
CONCURRENCY = Integer(ENV.fetch("SDK_CONCURRENCY", 5))
DIRECTORY = ENV["SDK_DIRECTORY"]
WORKER_ID = "worker_#{SecureRandom.uuid}"

$held = {}
$state = :running

class Refused < StandardError
  attr_reader :status

  def initialize(status)
    @status = status
    super("status #{status}")
  end
end

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

def note(word, job, attempt = "")
  return unless DIRECTORY

  line = "#{Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)} #{word} #{job} #{attempt}\n"
  File.open("#{DIRECTORY}/journal", File::CREAT | File::APPEND | File::WRONLY) { |journal| journal.syswrite(line) }
end

# One connection for each thread, which is kept; when it is broken there is one more, once.
def send_request(path, body)
  request = Net::HTTP::Post.new("/ojs/v1#{path}")
  request["Content-Type"] = request["Accept"] = "application/openjobspec+json"
  request["OJS-Version"] = "1.0"
  request["X-Request-ID"] = SecureRandom.uuid
  request.body = JSON.generate(body)
  reply = begin
    connection.request(request)
  rescue IOError, SystemCallError
    Thread.current[:connection] = nil
    connection.request(request)
  end
  raise Refused, reply.code.to_i if reply.code.to_i >= 400

  JSON.parse(reply.body)
end

def connection
  Thread.current[:connection] ||= Net::HTTP.new(ADDRESS.host, ADDRESS.port).tap do |http|
    http.use_ssl = ADDRESS.scheme == "https"
    http.open_timeout = http.read_timeout = http.write_timeout = 30
    # The standard library would repeat only what may be sent twice, which a POST may not.
    http.start
  end
end

def post(path, body)
  send_request(path, body)
end

def handle(job)
  args = job["args"] || [0]
  return args[0] if job["type"] == "ok"

  sleep(args[0] / 1000.0)
  post("/jobs", { type: args[1], args: args[2..], queue: job["queue"] }) if job["type"] == "enqueue"
  raise "failed as told" if job["type"] == "fail"

  job["type"] == "large" ? "x" * args[1] : { slept: args[0] }
end

def run(job)
  id = job["id"]
  lock = File.open("#{DIRECTORY || '/tmp'}/job-#{id}", File::CREAT | File::APPEND | File::WRONLY)
  note(lock.flock(File::LOCK_EX | File::LOCK_NB) ? "took" : "overlap", id, job["attempt"])
  word, path, body = begin
    ["acked", "/workers/ack", { job_id: id, result: handle(job) }]
  rescue StandardError => e
    failure = { code: "handler_error", message: e.message, retryable: true, details: { class: e.class.name } }
    ["failed", "/workers/nack", { job_id: id, error: failure }]
  end
  lock.close
  note("ended", id, job["attempt"])
  begin
    post(path, body)
    note(word, id, job["attempt"])
  rescue StandardError => e
    note("unreported", id, job["attempt"])
    warn("job #{id}: #{e.inspect}")
  end
ensure
  $held.delete(job["id"])
end

def fetch
  while $state != :stopping
    free = CONCURRENCY - $held.size
    jobs = []
    if free.positive? && $state == :running
      begin
        jobs = post("/workers/fetch", { queues: ["default"], batch_size: [free, 5].min })["jobs"] || []
      rescue StandardError => e
        warn("fetch: #{e.inspect}")
      end
    end
    jobs.each do |job|
      $held[job["id"]] = Thread.new { run(job) }
    end
    pause_until(now + POLL) if jobs.empty?
  end
end

def pause_until(moment)
  sleep(0.02) while now < moment && $state != :stopping
end

# They go on in the drain, while there is a job.
def beat
  until $state == :stopping && $held.empty?
    sleep([HEARTBEAT, 0.05].max)
    next if $held.empty?

    begin
      case post("/workers/heartbeat", { worker_id: WORKER_ID, active_jobs: $held.keys })["state"]
      when "quiet" then $state = :quiet if $state == :running
      when "terminate" then $state = :stopping
      end
    rescue StandardError => e
      warn("heartbeat: #{e.inspect}")
    end
  end
end

%w[TERM INT].each do |signal|
  trap(signal) do
    note("terminated", Process.pid)
    $state = :stopping
  end
end
note("started", Process.pid)
# Longest that a worker is there that nobody ends.
LIFE = Integer(ENV.fetch("SDK_LIFE_S", 0))
Thread.new { sleep(LIFE) && exit!(9) } if LIFE.positive?
ALIVE = DIRECTORY && File.open("#{DIRECTORY}/alive", File::CREAT | File::APPEND | File::WRONLY).tap { |file| file.flock(File::LOCK_SH) }
fetcher = Thread.new { fetch }
Thread.new { beat }
sleep(0.02) while $state != :stopping
deadline = now + GRACE
fetcher.join(1)
sleep(0.01) while now < deadline && !$held.empty?
exit!(0)
