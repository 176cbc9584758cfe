# frozen_string_literal: true

# The ActiveJob adapter with the real gems, for example those of Debian:
# apt-get install ruby-activejob ruby-railties ruby-globalid

require_relative "../fake_init"
require_relative "../fake_backend"
begin
  require "rails"
  require "global_id"
  require "active_job/railtie"
rescue LoadError => e
  abort("#{e.message}: apt-get install ruby-activejob ruby-railties ruby-globalid")
end
require "ojs_worker/rails"

# A record that jobs get by its GlobalID.
class User
  include GlobalID::Identification

  attr_reader :id

  def initialize(id)
    @id = id
  end

  def self.find(id)
    new(id)
  end

  def ==(other)
    other.is_a?(User) && other.id == id
  end
end

# As in a new Rails application.
class ApplicationJob < ActiveJob::Base; end

# What the jobs of the tests did.
DONE = Thread::Queue.new

# What each request of an application has of its own.
class Current < ActiveSupport::CurrentAttributes
  attribute :user
end

# An unchanged job of an application.
class WelcomeJob < ApplicationJob
  # An error that passes.
  class Busy < StandardError; end
  # An error for which the job is given up.
  class Gone < StandardError; end

  queue_as :mail
  retry_on Busy, wait: 30, attempts: 2
  discard_on Gone

  def perform(user, word, at: nil)
    raise Busy, "mail server busy" if word == "busy"
    raise Gone if word == "gone"
    raise "a mistake" if word == "mistake"
    DONE << [user, word, at, provider_job_id, Current.user]
    Current.user = user
  end
end

# The smallest Rails application.
class TestApplication < Rails::Application
  config.eager_load = false
  config.root = Dir.tmpdir
  config.secret_key_base = "not a secret"
  config.logger = Logger.new(IO::NULL)
  config.active_job.queue_adapter = :ojs
end
TestApplication.initialize!
GlobalID.app = "test-application"

# Enqueued by the application over HTTP, run by the worker over the socket.
class TestActiveJob < WorkerTest
  def setup
    super
    @backend = FakeBackend.new
    OjsWorker.client = OjsWorker::Client.new(url: @backend.url)
    worker = new_worker
    OjsWorker::Rails.install(worker)
    start(worker)
    assert_equal(["active_job"], @init.greet["types"])
  end

  def teardown
    OjsWorker.client = nil
    @backend.close
    @init.terminate
    super
  end

  def test_a_job_is_enqueued_and_run_with_its_record_and_keywords
    WelcomeJob.perform_later(User.new("7"), "hello", at: Time.at(0).utc)
    sent = @backend.jobs.pop
    assert_equal(["active_job", { "queue" => "mail" }], sent.values_at("type", "options"))
    assert_equal("ack", run_sent(sent)["type"])
    user, word, at, id, = DONE.pop
    assert_equal([User.new("7"), "hello", Time.at(0), sent["id"]], [user, word, at, id])
  end

  def test_a_job_for_later_has_its_time_and_priority
    at = Time.at(2_000_000_000).utc
    WelcomeJob.set(wait_until: at, queue: "low", priority: 5).perform_later(User.new("7"), "hello")
    assert_equal({ "queue" => "low", "delay_until" => at.iso8601(3), "priority" => -5 }, @backend.jobs.pop["options"])
  end

  def test_retry_on_enqueues_another_job_and_then_fails_for_good
    WelcomeJob.perform_later(User.new("7"), "busy")
    assert_equal("ack", run_sent(@backend.jobs.pop)["type"])
    again = @backend.jobs.pop
    assert_operator(Time.iso8601(again["options"]["delay_until"]), :>, Time.now + 20)
    failed = run_sent(again)
    assert_equal({ "type" => "WelcomeJob::Busy", "retryable" => false, "message" => "mail server busy" },
                 failed["error"].slice("type", "retryable", "message"))
  end

  def test_discard_on_ends_the_job_as_done
    WelcomeJob.perform_later(User.new("7"), "gone")
    assert_equal("ack", run_sent(@backend.jobs.pop)["type"])
  end

  def test_an_error_without_a_rule_is_the_backends
    WelcomeJob.perform_later(User.new("7"), "mistake")
    error = run_sent(@backend.jobs.pop)["error"]
    assert_equal(["RuntimeError", true], error.values_at("type", "retryable"))
  end

  def test_the_executor_resets_what_a_job_leaves
    2.times do
      WelcomeJob.perform_later(User.new("7"), "hello")
      run_sent(@backend.jobs.pop)
      assert_nil(DONE.pop.last)
    end
  end

  private

  # Gives the worker a job that was enqueued, and returns the answer.
  def run_sent(sent)
    @init.answer_to(sent["id"], sent["type"], *sent["args"])
  end
end
