# frozen_string_literal: true

require_relative "fake_init"
require_relative "fake_backend"

# The enqueue client.
class TestClient < Minitest::Test
  def teardown
    @backend&.close
  end

  def client(*answers, **options)
    @backend = FakeBackend.new(*answers)
    OjsWorker::Client.new(url: "#{@backend.url}/", **options)
  end

  def test_a_job_is_one_request
    assert_equal("chosen", client(token: "secret").enqueue("t", [1], meta: { a: 1 }, delay_until: Time.at(0)))
    assert_equal({ "type" => "t", "args" => [1], "meta" => { "a" => 1 },
                   "options" => { "delay_until" => "1970-01-01T00:00:00.000Z" } }, @backend.jobs.pop)
    assert_match(%r{\APOST /ojs/v1/jobs .*Authorization: Bearer secret}m, @backend.heads.pop)
  end

  def test_a_refusal_is_an_error_with_status_and_code_and_not_repeated
    error = assert_raises(OjsWorker::EnqueueError) { client(422).enqueue("t", [], id: OjsWorker::Client.new_id) }
    assert_equal([422, "no"], [error.status, error.code])
    assert_match(/422 no not now/, error.message)
    assert_equal(1, @backend.jobs.size)
  end

  def test_a_job_with_an_id_is_sent_again_and_one_without_is_not
    id = OjsWorker::Client.new_id
    assert_equal(id, client(nil, 503).enqueue("t", [], id: id))
    assert_equal([id] * 3, Array.new(3) { @backend.jobs.pop["id"] })
    @backend.close
    assert_raises(OjsWorker::EnqueueError) { client(503).enqueue("t") }
    assert_equal(1, @backend.jobs.size)
  end

  def test_a_job_that_an_earlier_try_brought_is_enqueued
    id = OjsWorker::Client.new_id
    assert_equal(id, client(nil, 409).enqueue("t", [], id: id))
    @backend.close
    assert_raises(OjsWorker::EnqueueError) { client(409).enqueue("t", [], id: id) }
  end

  def test_the_duplicate_of_another_job_is_an_error
    duplicate = '{"error":{"code":"duplicate","details":{"existing_job_id":"another"}}}'
    answers = [503, "HTTP/1.1 409 X\r\nContent-Length: #{duplicate.size}\r\n\r\n#{duplicate}"]
    error = assert_raises(OjsWorker::EnqueueError) { client(*answers).enqueue("t", [], id: OjsWorker::Client.new_id) }
    assert_equal("duplicate", error.code)
  end

  def test_what_is_no_answer_of_a_backend_is_an_enqueue_error
    head = "HTTP/1.1 201 X\r\nContent-Length:"
    ["hello\r\n\r\n", "#{head} 6\r\n\r\n<html>", "#{head} 2\r\n\r\n[]"].each do |answer|
      assert_raises(OjsWorker::EnqueueError) { client(answer).enqueue("t") }
      @backend.close
    end
  end

  def test_a_backend_may_ask_for_a_pause_that_makes_no_sense
    id = OjsWorker::Client.new_id
    assert_equal(id, client("HTTP/1.1 429 X\r\nRetry-After: -1\r\nContent-Length: 0\r\n\r\n").enqueue("t", [], id: id))
  end

  def test_the_token_is_that_of_the_environment_without_white_space
    before = ENV.to_h
    { "OJS_AUTH_TOKEN" => "other", "OJS_ENQUEUE_TOKEN" => "own\n" }.each do |name, value|
      ENV[name] = value
      client.enqueue("t")
      assert_match(/Authorization: Bearer #{value.strip}\r\n/, @backend.heads.pop)
      @backend.close
    end
  ensure
    ENV.replace(before)
  end

  def test_tries_are_bounded
    assert_raises(OjsWorker::EnqueueError) { client(503, 503, tries: 2).enqueue("t", [], id: OjsWorker::Client.new_id) }
    assert_equal(2, @backend.jobs.size)
  end

  def test_a_job_that_is_no_json_and_a_client_without_a_url_are_errors
    assert_raises(TypeError) { client.enqueue("t", [Object.new]) }
    assert_raises(ArgumentError) { OjsWorker::Client.new(url: nil) }
  end

  def test_ids_are_uuids_of_version_7_in_the_order_of_time
    ids = Array.new(3) do
      sleep(0.002)
      OjsWorker::Client.new_id
    end
    assert_equal(ids, ids.sort)
    ids.each { |id| assert_match(/\A\h{8}-\h{4}-7\h{3}-[89ab]\h{3}-\h{12}\z/, id) }
  end
end
