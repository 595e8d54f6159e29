"""Progress of long commands: the line, how often it is written, and where."""

from ottla.cli.progress import Progress, line


def test_a_line_has_a_bar_a_rate_and_the_time_left():
    assert (
        line("moving", 512 << 20, 1 << 30, 8, "B", "1/2 moved")
        == "moving:  [##########..........]  50%  512MB of 1GB  1/2 moved  64MB/s  8s left"
    )
    assert line("sending", 1500, None, 3, " records") == "sending:  1.5K records  500 records/s"
    assert line("sending", 0, 100, 0) == "sending:  [....................]   0%  0 of 100"
    assert "left" not in line("sending", 100, 100, 5)


def test_it_is_written_ten_times_a_second_and_at_the_end(capsys):
    clock = iter([0.0, *(n / 1000 for n in range(1000))])
    progress = Progress("work", is_shown=True, now=lambda: next(clock))
    for count in range(1, 1001):
        progress.at(count, 1000)
    progress.done()
    written = capsys.readouterr().err
    assert 10 <= written.count("work:") <= 12
    assert "100%" in written
    assert written.endswith("\r\033[K")


def test_nothing_is_written_where_nobody_looks(capsys):
    progress = Progress("work")  # standard error is no terminal here
    progress.at(1, 2)
    progress.done()
    assert capsys.readouterr().err == ""
