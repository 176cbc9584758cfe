# frozen_string_literal: true

require_relative "fake_init"
require "open3"

# The gem, its signatures and its README.
class TestPackage < Minitest::Test
  ROOT = File.expand_path("..", __dir__)

  def test_the_gem_is_built_and_installed_without_a_network_and_can_be_required
    Dir.mktmpdir("ojs-gem-") do |folder|
      home = File.join(folder, "home")
      @environment = { "GEM_HOME" => home, "GEM_PATH" => home, "RUBYLIB" => nil, "RUBYOPT" => nil }
      built = shell("gem", "build", "ojs-worker.gemspec", "--output", "#{folder}/ojs-worker.gem")
      # The project has no public address yet, so the gem has no homepage.
      assert_empty(built.lines.grep(/WARNING/).grep_v(/See https|no homepage/))
      shell("gem", "install", "--local", "--no-document", "#{folder}/ojs-worker.gem")
      version = shell("ruby", "-w", "-e", "require 'ojs_worker'; puts OjsWorker::VERSION")
      assert_equal("#{OjsWorker::VERSION}\n", version)
      license = File.join(home, "gems", "ojs-worker-#{OjsWorker::VERSION}", "LICENSE")
      assert_equal(File.read(File.join(ROOT, "../../LICENSE")), File.read(license))
    end
  end

  def test_signatures_and_public_methods_are_the_same
    require "rbs"
    declarations = RBS::Parser.parse_signature(File.read(File.join(ROOT, "sig/ojs_worker.rbs")))
    declarations = declarations[2] if declarations[0].is_a?(RBS::Buffer)
    declarations.each { |declaration| compare(Object.const_get(declaration.name.to_s), declaration) }
  rescue LoadError
    skip("the gem rbs is not there")
  end

  def test_the_code_of_the_readme_runs
    readme = File.read(File.join(ROOT, "README.md"))
    blocks = readme.scan(/^```ruby\n(.*?)^```$/m).flatten
    blocks.each { |block| RubyVM::InstructionSequence.compile(block) }
    OjsWorker.logger = Logger.new(IO::NULL)
    worker = worker_of(blocks.grep(/^worker\./).join("\n"))
    assert_equal({ "sent" => 2, "attempt" => 1 }, worker.perform("email.send", ["a@b.c", 2]).result)
    assert_output(nil, /perform-1 failed for good/) do
      assert_equal("InvalidArgs", worker.perform("email.send", [7, "x"]).error["type"])
    end
    assert_equal({ "id" => "j1", "built" => "a" }, worker.perform("report.build", ["a"], id: "j1").result)
    assert_equal([%w[download file]], worker.perform("import", ["file"]).checkpoints.last["steps"])
  ensure
    OjsWorker.logger = nil
  end

  def test_the_lambda_of_the_readme_gives_rows_in_the_order_of_its_key
    code = File.read(File.join(ROOT, "README.md"))[/`(job\.iterate\(->.*)`/, 1]
    row = Struct.new(:id)
    table = Object.new
    table.define_singleton_method(:where) { |_, id| @found = [3, 1, 2].map { |n| row.new(n) }.select { |r| r.id > id } and self }
    table.define_singleton_method(:order) { |name| @found.sort_by(&name) }
    worker = OjsWorker::Worker.new
    worker.job("t") { |job| [].tap { |seen| eval(code.gsub("Row.", "table.").sub("save(row)", "seen << row.id")) } }
    assert_equal([1, 2, 3], worker.perform("t").result)
    saved = { "ojs_resume" => 1, "steps" => [], "cursors" => { "" => 1 }, "state" => nil }
    assert_equal([2, 3], worker.perform("t", [], checkpoint: saved).result)
  end

  private

  def shell(*command)
    output, status = Open3.capture2e(@environment, *command, chdir: ROOT)
    assert(status.success?, output)
    output
  end

  # The worker of the README, which is not run.
  def worker_of(code)
    context = Object.new
    context.define_singleton_method(:download) { |url| url }
    context.define_singleton_method(:rows_of) { |_file| [{ "id" => 1 }] }
    context.define_singleton_method(:save) { |row| row }
    context.instance_eval("#{code.sub(/^worker\.run$/, "")}\nworker", __FILE__, __LINE__)
  end

  def compare(owner, declaration)
    declaration.members.each do |member|
      case member
      when RBS::AST::Members::MethodDefinition
        where = member.kind == :singleton ? owner.singleton_class : owner
        assert_includes(where.instance_methods + where.private_instance_methods, member.name, owner)
      when RBS::AST::Members::AttrReader, RBS::AST::Members::AttrAccessor
        assert(owner.method_defined?(member.name), "#{owner} #{member.name}")
      when RBS::AST::Declarations::Class, RBS::AST::Declarations::Module
        compare(owner.const_get(member.name.to_s), member)
      end
    end
  end
end
