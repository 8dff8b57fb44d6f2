//! Schedules as a file for templates/.

use schedule::Schedule;

/// The text of a Rust file with these schedules: to be put into templates/ under any name, and that name into its catalog.
pub fn source(schedules: &[&Schedule]) -> String {
    let mut text = String::from("//! Schedules that tuning found.\n\nuse schedule_macros::schedule;\n\nschedule! {\n");
    for (index, schedule) in schedules.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        for line in schedule.to_string().lines() {
            text.push_str("    ");
            text.push_str(line);
            text.push('\n');
        }
    }
    text + "}\n"
}
